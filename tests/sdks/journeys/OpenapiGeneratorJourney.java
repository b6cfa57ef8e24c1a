// The journey by the clients that openapi-generator makes for Java; it prints what it saw as JSON.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import loyalty.administration.api.CampaignsApi;
import loyalty.administration.api.LedgersApi;
import loyalty.administration.model.ActionEffect;
import loyalty.administration.model.ActionEffectParam;
import loyalty.administration.model.ActionEffects;
import loyalty.administration.model.ActionRules;
import loyalty.administration.model.ActionStatus;
import loyalty.administration.model.CampaignActionBody;
import loyalty.administration.model.CampaignBody;
import loyalty.administration.model.LedgerAccountCreate;
import loyalty.administration.model.MemberPointsRequest;
import loyalty.integration.ApiClient;
import loyalty.integration.ApiException;
import loyalty.integration.api.AuthApi;
import loyalty.integration.api.CouponBooksApi;
import loyalty.integration.api.EventsApi;
import loyalty.integration.api.MemberCouponsApi;
import loyalty.integration.api.MembersApi;
import loyalty.integration.model.CouponAssignment;
import loyalty.integration.model.CouponBookChange;
import loyalty.integration.model.CouponBookInput;
import loyalty.integration.model.CouponBookType;
import loyalty.integration.model.CouponCodes;
import loyalty.integration.model.CouponUse;
import loyalty.integration.model.EventPayload;
import loyalty.integration.model.LedgerBalance;
import loyalty.integration.model.Member;
import loyalty.integration.model.MemberCreate;
import loyalty.integration.model.MemberProfileInput;
import loyalty.integration.model.MemberUpdate;
import loyalty.integration.model.OrderPayload;
import loyalty.integration.model.Problem;
import loyalty.integration.model.ProblemFault;
import loyalty.integration.model.TrackRequest;
import loyalty.integration.model.TrackedEvent;

public final class OpenapiGeneratorJourney {
  private static final ObjectMapper JSON = ApiClient.createDefaultObjectMapper();

  private interface Call {
    Object make() throws ApiException;
  }

  private OpenapiGeneratorJourney() {}

  private static String setting(String name) {
    return java.util.Objects.requireNonNull(System.getenv("JOURNEY_" + name), name);
  }

  // The parts of the problem, by which programs decide, that a call is refused with.
  private static Map<String, Object> problemOf(Call call) throws Exception {
    try {
      call.make();
    } catch (ApiException refused) {
      Problem problem = JSON.readValue(refused.getResponseBody(), Problem.class);
      List<String> pointers = new ArrayList<>();
      if (problem.getErrors() != null) {
        for (ProblemFault fault : problem.getErrors()) {
          pointers.add(fault.getPointer());
        }
      }
      return Map.of("status", problem.getStatus(), "type", problem.getType(), "pointers", pointers);
    }
    throw new IllegalStateException("a problem was expected");
  }

  public static void main(String[] arguments) throws Exception {
    String url = setting("URL");
    Long organization = Long.valueOf(setting("ORGANIZATION_ID"));

    ApiClient anonymous = new ApiClient();
    anonymous.updateBaseUri(url);
    String token =
        new AuthApi(anonymous)
            .createAccessToken(
                "client_credentials", setting("CLIENT_ID"), setting("CLIENT_SECRET"), null, null, null)
            .getAccessToken();
    ApiClient shop = new ApiClient();
    shop.updateBaseUri(url);
    shop.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + token));
    loyalty.administration.ApiClient office = new loyalty.administration.ApiClient();
    office.updateBaseUri(url);
    String administrator = "Bearer " + setting("ADMIN_TOKEN");
    office.setRequestInterceptor(request -> request.header("Authorization", administrator));

    // An account with six decimals, and a campaign that gives whole points and parts of gems.
    var gems =
        new LedgersApi(office)
            .createLedgerAccount(
                organization,
                Long.valueOf(setting("LEDGER_ID")),
                new LedgerAccountCreate()
                    .name("Gems")
                    .alias("gems")
                    .active(true)
                    .isRevolving(true)
                    .chainSyncEnabled(false)
                    .decimals(6))
            .getLedgerAccount();
    CampaignsApi campaigns = new CampaignsApi(office);
    var campaign =
        campaigns
            .createCampaign(
                organization,
                new CampaignBody()
                    .code("spend")
                    .name("Spend")
                    .eventType("member-purchase-order-created")
                    .validFrom(OffsetDateTime.parse("2026-01-01T00:00:00-03:00")))
            .getCampaign();
    var points =
        new ActionEffect()
            .effectId("mint-points")
            .addParamsItem(new ActionEffectParam().id("amount").expression("floor(order.total)"));
    var parts =
        new ActionEffect()
            .effectId("mint-points")
            .addParamsItem(new ActionEffectParam().id("amount").expression("order.total"))
            .addParamsItem(
                new ActionEffectParam().id("ledgerAccountKey").value(gems.getLedgerAccountKey().toString()));
    campaigns.createAction(
        organization,
        campaign.getCampaignId(),
        new CampaignActionBody()
            .rules(new ActionRules().expression("order.total >= 1"))
            .effects(new ActionEffects().addItemsItem(points).addItemsItem(parts))
            .status(ActionStatus.RUNNING)
            .priority(1));

    // Members, an event of one of them, and what it gave.
    MembersApi members = new MembersApi(shop);
    for (String name : List.of("ben", "cleo", "dora", "eve")) {
      members.createMember(new MemberCreate().loyaltyMemberId(name));
    }
    members.createMember(
        new MemberCreate()
            .loyaltyMemberId("ana")
            .publicLoyaltyMemberId("A-1")
            .profile(new MemberProfileInput().birthdate(LocalDate.of(1992, 2, 29)))
            .putCustomAttributesItem("drink", "flat white"));
    var purchase =
        new TrackedEvent()
            .loyaltyMemberId("ana")
            .systemUniqueKey("sale-1")
            .eventType("member-purchase-order-created")
            .externalEventDate(OffsetDateTime.parse("2026-03-02T08:15:00Z"))
            .payload(
                new EventPayload()
                    .order(new OrderPayload().externalId("order-1").total(new BigDecimal("16777217.55"))));
    List<String> amounts = new ArrayList<>();
    for (var effect :
        new EventsApi(shop)
            .trackEvents(new TrackRequest().addEventsItem(purchase))
            .getResults()
            .get(0)
            .getEffects()) {
      for (var param : effect.getParams()) {
        if (param.getId().equals("amount")) {
          amounts.add(new BigDecimal(param.getValue().toString()).toPlainString());
        }
      }
    }

    // A long decimal.
    new loyalty.administration.api.MembersApi(office)
        .mintMemberPoints(
            organization,
            "ben",
            new MemberPointsRequest()
                .amount(new BigDecimal(setting("DECIMAL")))
                .ledgerAccountId(gems.getLedgerAccountId()));
    String decimal = "";
    for (LedgerBalance balance : members.getMember("ben", true, null).getLoyaltyMember().getLedgerBalances()) {
      if (balance.getLedgerAccountId().equals(gems.getLedgerAccountId())) {
        decimal = balance.getBalance().toPlainString();
      }
    }

    // Updates: one field changes, the others stay; null clears.
    Member patched =
        members.updateMember("ana", new MemberUpdate().publicLoyaltyMemberId("A-2")).getLoyaltyMember();
    Member cleared =
        members.updateMember("ana", new MemberUpdate().publicLoyaltyMemberId(null)).getLoyaltyMember();

    // A book with codes of its own: one is assigned and used.
    CouponBooksApi books = new CouponBooksApi(shop);
    UUID book =
        books
            .createCouponBook(
                new CouponBookInput()
                    .publishingStatus(CouponBookInput.PublishingStatusEnum.PUBLISHED)
                    .type(CouponBookType.LIST)
                    .name("Free flat white")
                    .addTagsItem("coffee")
                    .addChannelsItem("app")
                    .putCustomAttributesItem("cup", "large"))
            .getCouponBook()
            .getCouponBookKey();
    books.addCouponBookCoupons(book, new CouponCodes().addCodesItem("FLAT-1"));
    var renamed = books.updateCouponBook(book, new CouponBookChange().name("Free espresso")).getCouponBook();
    MemberCouponsApi coupons = new MemberCouponsApi(shop);
    var assigned =
        coupons
            .assignCoupon("ana", book, new CouponAssignment().systemUniqueKey("assign-1").amount(1L))
            .getCouponUsage();
    var used =
        coupons
            .useCoupon("ana", book, new CouponUse().systemUniqueKey("use-1").code("FLAT-1"))
            .getCouponUsage();

    // Lists: all pages, then filters.
    List<String> listed = new ArrayList<>();
    int pages = 0;
    while (true) {
      var page = members.listMembers(pages, 2, null, "createdAt,asc", null, null, null, null, null);
      if (page.getResults().isEmpty()) {
        break;
      }
      page.getResults().forEach(member -> listed.add(member.getLoyaltyMemberId()));
      pages++;
    }
    var found = members.listMembers(null, null, null, null, null, "cleo", null, null, null).getResults();
    OffsetDateTime future = OffsetDateTime.parse("2099-01-01T00:00:00Z");
    var later = members.listMembers(null, null, null, null, null, null, null, future, null);

    Map<String, Object> seen = new LinkedHashMap<>();
    seen.put("amounts", amounts);
    seen.put("decimal", decimal);
    seen.put("validFrom", Instant.from(campaign.getValidFrom()).toString());
    seen.put(
        "patched",
        Map.of(
            "publicLoyaltyMemberId", patched.getPublicLoyaltyMemberId(),
            "birthdate", patched.getProfile().getBirthdate().toString(),
            "customAttributes", patched.getCustomAttributes()));
    seen.put("cleared", cleared.getPublicLoyaltyMemberId());
    seen.put(
        "book",
        Map.of(
            "name", renamed.getName(),
            "tags", renamed.getTags(),
            "channels", renamed.getChannels(),
            "customAttributes", renamed.getCustomAttributes()));
    seen.put("coupons", List.of(assigned.getCode(), used.getCode()));
    seen.put("members", listed);
    seen.put("pages", pages);
    seen.put("found", found.stream().map(Member::getLoyaltyMemberId).toList());
    seen.put("later", later.getTotal());
    seen.put(
        "problems",
        List.of(
            problemOf(() -> members.createMember(new MemberCreate().loyaltyMemberId(" ana"))),
            problemOf(() -> members.getMember("nobody", null, null)),
            problemOf(() -> members.createMember(new MemberCreate().loyaltyMemberId("ana"))),
            problemOf(
                () ->
                    coupons.useCoupon(
                        "ana", book, new CouponUse().systemUniqueKey("use-2").code("FLAT-1")))));
    System.out.println(new ObjectMapper().writeValueAsString(seen));
  }
}
