// The journey by the clients that openapi-generator makes for Go; it prints what it saw as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"journey/administration"
	"journey/integration"
)

type problem struct {
	Status   int32    `json:"status"`
	Type     string   `json:"type"`
	Pointers []string `json:"pointers"`
}

func setting(name string) string {
	value, found := os.LookupEnv("JOURNEY_" + name)
	if !found {
		panic("JOURNEY_" + name + " is missing")
	}
	return value
}

func number(name string) int64 {
	value, err := strconv.ParseInt(setting(name), 10, 64)
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// The body of an answer that has to be a success.
func success[Body any](body Body, _ *http.Response, err error) Body {
	var refused *integration.GenericOpenAPIError
	if errors.As(err, &refused) {
		panic(string(refused.Body()))
	}
	must(err)
	return body
}

// The parts of the problem, by which programs decide, that a call is refused with.
func told[Body any](_ Body, _ *http.Response, err error) problem {
	var refused *integration.GenericOpenAPIError
	if !errors.As(err, &refused) {
		panic("a problem was expected")
	}
	found, isProblem := refused.Model().(integration.Problem)
	if !isProblem {
		panic(string(refused.Body()))
	}
	pointers := []string{}
	for _, fault := range found.Errors {
		pointers = append(pointers, fault.GetPointer())
	}
	return problem{found.Status, found.Type, pointers}
}

func text(value string) integration.NullableString {
	return *integration.NewNullableString(&value)
}

func officeText(value string) administration.NullableString {
	return *administration.NewNullableString(&value)
}

func main() {
	ctx := context.Background()
	url := setting("URL")
	organization := number("ORGANIZATION_ID")

	configuration := integration.NewConfiguration()
	configuration.Servers = integration.ServerConfigurations{{URL: url}}
	shop := integration.NewAPIClient(configuration)
	token := success(shop.AuthAPI.CreateAccessToken(ctx).GrantType("client_credentials").
		ClientId(setting("CLIENT_ID")).ClientSecret(setting("CLIENT_SECRET")).Execute())
	configuration.DefaultHeader["Authorization"] = "Bearer " + token.AccessToken
	ofOffice := administration.NewConfiguration()
	ofOffice.Servers = administration.ServerConfigurations{{URL: url}}
	ofOffice.DefaultHeader["Authorization"] = "Bearer " + setting("ADMIN_TOKEN")
	office := administration.NewAPIClient(ofOffice)

	// An account with six decimals, and a campaign that gives whole points and parts of gems.
	account := administration.NewLedgerAccountCreate("Gems", true, true, false)
	account.SetAlias("gems")
	account.SetDecimals(6)
	gems := success(office.LedgersAPI.CreateLedgerAccount(ctx, organization, number("LEDGER_ID")).
		LedgerAccountCreate(*account).Execute()).LedgerAccount
	spend := administration.NewCampaignBody("spend", "Spend")
	spend.SetEventType("member-purchase-order-created")
	spend.SetValidFrom(time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", -3*60*60)))
	campaign := success(office.CampaignsAPI.CreateCampaign(ctx, organization).CampaignBody(*spend).Execute()).Campaign
	rules := administration.NewActionRules()
	rules.Expression = officeText("order.total >= 1")
	action := administration.NewCampaignActionBody(
		*administration.NewActionEffects([]administration.ActionEffect{
			{EffectId: "mint-points", Params: []administration.ActionEffectParam{
				{Id: "amount", Expression: officeText("floor(order.total)")},
			}},
			{EffectId: "mint-points", Params: []administration.ActionEffectParam{
				{Id: "amount", Expression: officeText("order.total")},
				{Id: "ledgerAccountKey", Value: gems.LedgerAccountKey},
			}},
		}),
		administration.ACTIONSTATUS_RUNNING, 1,
	)
	action.SetRules(*rules)
	success(office.CampaignsAPI.CreateAction(ctx, organization, campaign.CampaignId).CampaignActionBody(*action).Execute())

	// Members, an event of one of them, and what it gave.
	members := shop.MembersAPI
	for _, name := range []string{"ben", "cleo", "dora", "eve"} {
		success(members.CreateMember(ctx).MemberCreate(*integration.NewMemberCreate(name)).Execute())
	}
	ana := integration.NewMemberCreate("ana")
	ana.SetPublicLoyaltyMemberId("A-1")
	ana.SetProfile(integration.MemberProfileInput{Birthdate: text("1992-02-29")})
	ana.SetCustomAttributes(map[string]any{"drink": "flat white"})
	success(members.CreateMember(ctx).MemberCreate(*ana).Execute())
	order := integration.NewOrderPayload("order-1")
	order.SetTotal(16777217.55)
	purchase := integration.NewTrackedEvent("ana", "sale-1", "member-purchase-order-created")
	purchase.SetExternalEventDate(time.Date(2026, 3, 2, 8, 15, 0, 0, time.UTC))
	purchase.SetPayload(integration.EventPayload{Order: order})
	tracked := success(shop.EventsAPI.TrackEvents(ctx).
		TrackRequest(*integration.NewTrackRequest([]integration.TrackedEvent{*purchase})).Execute())
	amounts := []string{}
	for _, effect := range tracked.Results[0].Effects {
		for _, param := range effect.Params {
			if param.Id == "amount" {
				amounts = append(amounts, strconv.FormatFloat(param.Value.(float64), 'f', -1, 64))
			}
		}
	}

	// A long decimal; float64 has 15 digits.
	amount, err := strconv.ParseFloat(setting("DECIMAL"), 64)
	must(err)
	mint := administration.NewMemberPointsRequest(amount)
	mint.SetLedgerAccountId(gems.LedgerAccountId)
	success(office.MembersAPI.MintMemberPoints(ctx, organization, "ben").MemberPointsRequest(*mint).Execute())
	decimal := ""
	for _, balance := range success(members.GetMember(ctx, "ben").IncludeBalance(true).Execute()).LoyaltyMember.LedgerBalances {
		if balance.LedgerAccountId == gems.LedgerAccountId {
			decimal = strconv.FormatFloat(balance.Balance, 'f', -1, 64)
		}
	}

	// Updates: one field changes, the others stay; null clears.
	change := integration.NewMemberUpdate()
	change.SetPublicLoyaltyMemberId("A-2")
	patched := success(members.UpdateMember(ctx, "ana").MemberUpdate(*change).Execute()).LoyaltyMember
	change.SetPublicLoyaltyMemberIdNil()
	cleared := success(members.UpdateMember(ctx, "ana").MemberUpdate(*change).Execute()).LoyaltyMember

	// A book with codes of its own: one is assigned and used.
	books, coupons := shop.CouponBooksAPI, shop.MemberCouponsAPI
	input := integration.NewCouponBookInput("published", integration.COUPONBOOKTYPE_LIST, "Free flat white")
	input.SetTags([]string{"coffee"})
	input.SetChannels([]string{"app"})
	input.SetCustomAttributes(map[string]any{"cup": "large"})
	book := success(books.CreateCouponBook(ctx).CouponBookInput(*input).Execute()).CouponBook.CouponBookKey
	success(books.AddCouponBookCoupons(ctx, book).CouponCodes(*integration.NewCouponCodes([]string{"FLAT-1"})).Execute())
	name := integration.NewCouponBookChange()
	name.SetName("Free espresso")
	renamed := success(books.UpdateCouponBook(ctx, book).CouponBookChange(*name).Execute()).CouponBook
	assignment := integration.NewCouponAssignment()
	assignment.SetSystemUniqueKey("assign-1")
	assignment.SetAmount(1)
	assigned := success(coupons.AssignCoupon(ctx, "ana", book).CouponAssignment(*assignment).Execute()).CouponUsage
	use := func(key string) (*integration.CouponUsageAnswer, *http.Response, error) {
		body := integration.CouponUse{SystemUniqueKey: text(key), Code: text("FLAT-1")}
		return coupons.UseCoupon(ctx, "ana", book).CouponUse(body).Execute()
	}
	used := success(use("use-1")).CouponUsage

	// Lists: all pages, then filters.
	listed := []string{}
	var pages int32
	for {
		page := success(members.ListMembers(ctx).Page(pages).Limit(2).Order("createdAt,asc").Execute())
		if len(page.Results) == 0 {
			break
		}
		for _, member := range page.Results {
			listed = append(listed, member.LoyaltyMemberId)
		}
		pages++
	}
	found := success(members.ListMembers(ctx).LoyaltyMemberId("cleo").Execute()).Results
	later := success(members.ListMembers(ctx).FromCreatedAt(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)).Execute())

	printed, err := json.Marshal(map[string]any{
		"amounts": amounts, "decimal": decimal,
		"validFrom": campaign.GetValidFrom().UTC().Format(time.RFC3339),
		"patched": map[string]any{
			"publicLoyaltyMemberId": patched.GetPublicLoyaltyMemberId(),
			"birthdate":             patched.Profile.GetBirthdate(),
			"customAttributes":      patched.CustomAttributes,
		},
		"cleared": cleared.PublicLoyaltyMemberId.Get(),
		"book": map[string]any{
			"name": renamed.Name, "tags": renamed.Tags, "channels": renamed.Channels,
			"customAttributes": renamed.CustomAttributes,
		},
		"coupons": []string{assigned.GetCode(), used.GetCode()}, "members": listed, "pages": pages,
		"found": []string{found[0].LoyaltyMemberId}, "later": later.Total,
		"problems": []problem{
			told(members.CreateMember(ctx).MemberCreate(*integration.NewMemberCreate(" ana")).Execute()),
			told(members.GetMember(ctx, "nobody").Execute()),
			told(members.CreateMember(ctx).MemberCreate(*integration.NewMemberCreate("ana")).Execute()),
			told(use("use-2")),
		},
	})
	must(err)
	fmt.Println(string(printed))
}
