// The journey by the clients that oapi-codegen makes; it prints what it saw as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"journey/administration"
	"journey/integration"

	"github.com/oapi-codegen/nullable"
	openapi_types "github.com/oapi-codegen/runtime/types"
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

// The parsed body of an answer that has to be a success.
func success[Body any](body *Body, err error, raw []byte) Body {
	must(err)
	if body == nil {
		panic(string(raw))
	}
	return *body
}

// The parts of a problem by which programs decide.
func told(found *integration.Problem, err error) problem {
	must(err)
	if found == nil {
		panic("a problem was expected")
	}
	pointers := []string{}
	if found.Errors != nil {
		for _, fault := range *found.Errors {
			pointers = append(pointers, *fault.Pointer)
		}
	}
	return problem{found.Status, string(found.Type), pointers}
}

func pointer[Value any](value Value) *Value {
	return &value
}

func bearer(token string) func(context.Context, *http.Request) error {
	return func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

func main() {
	ctx := context.Background()
	url := setting("URL")
	organization := number("ORGANIZATION_ID")

	anonymous, err := integration.NewClientWithResponses(url)
	must(err)
	issued, err := anonymous.CreateAccessTokenWithFormdataBodyWithResponse(ctx, integration.AccessTokenRequest{
		GrantType:    "client_credentials",
		ClientId:     pointer(setting("CLIENT_ID")),
		ClientSecret: pointer(setting("CLIENT_SECRET")),
	})
	token := success(issued.JSON200, err, issued.Body)
	shop, err := integration.NewClientWithResponses(url, integration.WithRequestEditorFn(bearer(token.AccessToken)))
	must(err)
	office, err := administration.NewClientWithResponses(
		url, administration.WithRequestEditorFn(bearer(setting("ADMIN_TOKEN"))),
	)
	must(err)

	// An account with six decimals, and a campaign that gives whole points and parts of gems.
	accounts, err := office.CreateLedgerAccountWithResponse(ctx, organization, number("LEDGER_ID"),
		administration.LedgerAccountCreate{
			Name: "Gems", Alias: nullable.NewNullableWithValue("gems"), Active: true, IsRevolving: true,
			Decimals: pointer[int32](6),
		})
	gems := success(accounts.JSON201, err, accounts.Body).LedgerAccount
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", -3*60*60))
	campaigns, err := office.CreateCampaignWithResponse(ctx, organization, administration.CampaignBody{
		Code: "spend", Name: "Spend", EventType: nullable.NewNullableWithValue("member-purchase-order-created"),
		ValidFrom: nullable.NewNullableWithValue(began),
	})
	campaign := success(campaigns.JSON201, err, campaigns.Body).Campaign
	var key any = gems.LedgerAccountKey.String()
	actions, err := office.CreateActionWithResponse(ctx, organization, campaign.CampaignId,
		administration.CampaignActionBody{
			Rules: &administration.ActionRules{Expression: nullable.NewNullableWithValue("order.total >= 1")},
			Effects: administration.ActionEffects{Items: []administration.ActionEffect{
				{EffectId: "mint-points", Params: []administration.ActionEffectParam{
					{Id: "amount", Expression: nullable.NewNullableWithValue("floor(order.total)")},
				}},
				{EffectId: "mint-points", Params: []administration.ActionEffectParam{
					{Id: "amount", Expression: nullable.NewNullableWithValue("order.total")},
					{Id: "ledgerAccountKey", Value: &key},
				}},
			}},
			Status: "running", Priority: 1,
		})
	success(actions.JSON201, err, actions.Body)

	// Members, an event of one of them, and what it gave.
	for _, name := range []string{"ben", "cleo", "dora", "eve"} {
		enrolled, err := shop.CreateMemberWithResponse(ctx, integration.MemberCreate{LoyaltyMemberId: name})
		success(enrolled.JSON201, err, enrolled.Body)
	}
	born := openapi_types.Date{Time: time.Date(1992, 2, 29, 0, 0, 0, 0, time.UTC)}
	enrolled, err := shop.CreateMemberWithResponse(ctx, integration.MemberCreate{
		LoyaltyMemberId:       "ana",
		PublicLoyaltyMemberId: nullable.NewNullableWithValue("A-1"),
		Profile:               &integration.MemberProfileInput{Birthdate: nullable.NewNullableWithValue(born)},
		CustomAttributes:      &integration.CustomAttributes{"drink": "flat white"},
	})
	success(enrolled.JSON201, err, enrolled.Body)
	bought := time.Date(2026, 3, 2, 8, 15, 0, 0, time.UTC)
	tracked, err := shop.TrackEventsWithResponse(ctx, integration.TrackRequest{Events: []integration.TrackedEvent{{
		LoyaltyMemberId: "ana", SystemUniqueKey: "sale-1", EventType: "member-purchase-order-created",
		ExternalEventDate: nullable.NewNullableWithValue(bought),
		Payload: &integration.EventPayload{
			Order: &integration.OrderPayload{ExternalId: "order-1", Total: pointer(json.Number("16777217.55"))},
		},
	}}})
	amounts := []string{}
	for _, effect := range success(tracked.JSON200, err, tracked.Body).Results[0].Effects {
		for _, param := range effect.Params {
			if param.Id == "amount" {
				amounts = append(amounts, strconv.FormatFloat(param.Value.(float64), 'f', -1, 64))
			}
		}
	}

	// A long decimal.
	minted, err := office.MintMemberPointsWithResponse(ctx, organization, "ben", administration.MemberPointsRequest{
		Amount:          json.Number(setting("DECIMAL")),
		LedgerAccountId: nullable.NewNullableWithValue(gems.LedgerAccountId),
	})
	success(minted.JSON200, err, minted.Body)
	ben, err := shop.GetMemberWithResponse(ctx, "ben", &integration.GetMemberParams{IncludeBalance: pointer(true)})
	decimal := ""
	for _, balance := range *success(ben.JSON200, err, ben.Body).LoyaltyMember.LedgerBalances {
		if balance.LedgerAccountId == gems.LedgerAccountId {
			decimal = balance.Balance.String()
		}
	}

	// Updates: one field changes, the others stay; null clears.
	changed, err := shop.UpdateMemberWithResponse(ctx, "ana", integration.MemberUpdate{
		PublicLoyaltyMemberId: nullable.NewNullableWithValue("A-2"),
	})
	patched := success(changed.JSON200, err, changed.Body).LoyaltyMember
	emptied, err := shop.UpdateMemberWithResponse(ctx, "ana", integration.MemberUpdate{
		PublicLoyaltyMemberId: nullable.NewNullNullable[string](),
	})
	cleared := success(emptied.JSON200, err, emptied.Body).LoyaltyMember

	// A book with codes of its own: one is assigned and used.
	books, err := shop.CreateCouponBookWithResponse(ctx, integration.CouponBookInput{
		PublishingStatus: "published", Type: "list", Name: "Free flat white", Tags: &[]string{"coffee"},
		Channels:         nullable.NewNullableWithValue([]string{"app"}),
		CustomAttributes: &integration.CustomAttributes{"cup": "large"},
	})
	book := success(books.JSON201, err, books.Body).CouponBook.CouponBookKey
	codes, err := shop.AddCouponBookCouponsWithResponse(ctx, book, integration.CouponCodes{Codes: []string{"FLAT-1"}})
	success(codes.JSON201, err, codes.Body)
	named, err := shop.UpdateCouponBookWithResponse(ctx, book, integration.CouponBookChange{
		Name: pointer("Free espresso"),
	})
	renamed := success(named.JSON200, err, named.Body).CouponBook
	assignments, err := shop.AssignCouponWithResponse(ctx, "ana", book, integration.CouponAssignment{
		SystemUniqueKey: nullable.NewNullableWithValue("assign-1"), Amount: pointer[int64](1),
	})
	assigned := success(assignments.JSON200, err, assignments.Body).CouponUsage
	use := func(key string) (*integration.UseCouponResponse, error) {
		return shop.UseCouponWithResponse(ctx, "ana", book, integration.CouponUse{
			SystemUniqueKey: nullable.NewNullableWithValue(key), Code: nullable.NewNullableWithValue("FLAT-1"),
		})
	}
	uses, err := use("use-1")
	used := success(uses.JSON200, err, uses.Body).CouponUsage

	// Lists: all pages, then filters.
	members := []string{}
	var pages int32
	for {
		page, err := shop.ListMembersWithResponse(ctx, &integration.ListMembersParams{
			Page: pointer(pages), Limit: pointer[int32](2), Order: pointer("createdAt,asc"),
		})
		results := success(page.JSON200, err, page.Body).Results
		if len(results) == 0 {
			break
		}
		for _, member := range results {
			members = append(members, member.LoyaltyMemberId)
		}
		pages++
	}
	filtered, err := shop.ListMembersWithResponse(ctx, &integration.ListMembersParams{LoyaltyMemberId: pointer("cleo")})
	found := success(filtered.JSON200, err, filtered.Body).Results
	later, err := shop.ListMembersWithResponse(ctx, &integration.ListMembersParams{
		FromCreatedAt: pointer(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)),
	})
	none := success(later.JSON200, err, later.Body)

	blank, err := shop.CreateMemberWithResponse(ctx, integration.MemberCreate{LoyaltyMemberId: " ana"})
	problems := []problem{told(blank.ApplicationproblemJSON400, err)}
	nobody, err := shop.GetMemberWithResponse(ctx, "nobody", nil)
	problems = append(problems, told(nobody.ApplicationproblemJSON404, err))
	twice, err := shop.CreateMemberWithResponse(ctx, integration.MemberCreate{LoyaltyMemberId: "ana"})
	problems = append(problems, told(twice.ApplicationproblemJSON409, err))
	again, err := use("use-2")
	problems = append(problems, told(again.ApplicationproblemJSON409, err))

	printed, err := json.Marshal(map[string]any{
		"amounts": amounts, "decimal": decimal,
		"validFrom": campaign.ValidFrom.MustGet().UTC().Format(time.RFC3339),
		"patched": map[string]any{
			"publicLoyaltyMemberId": patched.PublicLoyaltyMemberId,
			"birthdate":             patched.Profile.Birthdate,
			"customAttributes":      patched.CustomAttributes,
		},
		"cleared": cleared.PublicLoyaltyMemberId,
		"book": map[string]any{
			"name": renamed.Name, "tags": renamed.Tags, "channels": renamed.Channels,
			"customAttributes": renamed.CustomAttributes,
		},
		"coupons": []any{assigned.Code, used.Code}, "members": members, "pages": pages,
		"found": []string{found[0].LoyaltyMemberId}, "later": none.Total, "problems": problems,
	})
	must(err)
	fmt.Println(string(printed))
}
