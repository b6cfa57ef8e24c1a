// The journey by the clients that openapi-generator makes for Kotlin; it prints what it saw as JSON.

import java.math.BigDecimal
import java.time.LocalDate
import java.time.OffsetDateTime
import loyalty.administration.apis.CampaignsApi
import loyalty.administration.apis.LedgersApi
import loyalty.administration.models.ActionEffect
import loyalty.administration.models.ActionEffectParam
import loyalty.administration.models.ActionEffects
import loyalty.administration.models.ActionRules
import loyalty.administration.models.ActionStatus
import loyalty.administration.models.CampaignActionBody
import loyalty.administration.models.CampaignBody
import loyalty.administration.models.LedgerAccountCreate
import loyalty.administration.models.MemberPointsRequest
import loyalty.integration.apis.AuthApi
import loyalty.integration.apis.CouponBooksApi
import loyalty.integration.apis.EventsApi
import loyalty.integration.apis.MemberCouponsApi
import loyalty.integration.apis.MembersApi
import loyalty.integration.infrastructure.ApiClient
import loyalty.integration.infrastructure.ClientError
import loyalty.integration.infrastructure.ClientException
import loyalty.integration.infrastructure.Serializer
import loyalty.integration.models.CouponAssignment
import loyalty.integration.models.CouponBookChange
import loyalty.integration.models.CouponBookInput
import loyalty.integration.models.CouponBookType
import loyalty.integration.models.CouponCodes
import loyalty.integration.models.CouponUse
import loyalty.integration.models.EventPayload
import loyalty.integration.models.LoyaltyMemberEnvelope
import loyalty.integration.models.MemberCreate
import loyalty.integration.models.MemberProfileInput
import loyalty.integration.models.MemberUpdate
import loyalty.integration.models.OrderPayload
import loyalty.integration.models.Problem
import loyalty.integration.models.TrackRequest
import loyalty.integration.models.TrackedEvent
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody

private val json = Serializer.jacksonObjectMapper

private fun setting(name: String): String = requireNotNull(System.getenv("JOURNEY_$name")) { name }

// The parts of the problem, by which programs decide, that a call is refused with.
private fun problemOf(call: () -> Any): Map<String, Any> {
    try {
        call()
    } catch (refused: ClientException) {
        val body = (refused.response as ClientError<*>).body.toString()
        val problem = json.readValue(body, Problem::class.java)
        val pointers = problem.errors.orEmpty().map { it.pointer }
        return mapOf("status" to problem.status, "type" to problem.type, "pointers" to pointers)
    }
    error("a problem was expected")
}

fun main() {
    val url = setting("URL")
    val organization = setting("ORGANIZATION_ID").toLong()

    val credentials = setting("CLIENT_ID") to setting("CLIENT_SECRET")
    val token =
        AuthApi(url)
            .createAccessToken(
                AuthApi.GrantTypeCreateAccessToken.client_credentials,
                clientId = credentials.first,
                clientSecret = credentials.second,
            ).accessToken
    ApiClient.accessToken = token
    loyalty.administration.infrastructure.ApiClient.accessToken = setting("ADMIN_TOKEN")

    // An account with six decimals, and a campaign that gives whole points and parts of gems.
    val account =
        LedgerAccountCreate("Gems", active = true, isRevolving = true, chainSyncEnabled = false, alias = "gems", decimals = 6)
    val gems = LedgersApi(url).createLedgerAccount(organization, setting("LEDGER_ID").toLong(), account).ledgerAccount
    val campaigns = CampaignsApi(url)
    val spend =
        CampaignBody(
            code = "spend",
            name = "Spend",
            eventType = "member-purchase-order-created",
            validFrom = OffsetDateTime.parse("2026-01-01T00:00:00-03:00"),
        )
    val campaign = campaigns.createCampaign(organization, spend).campaign
    val points = ActionEffect("mint-points", listOf(ActionEffectParam("amount", expression = "floor(order.total)")))
    val parts =
        ActionEffect(
            "mint-points",
            listOf(
                ActionEffectParam("amount", expression = "order.total"),
                ActionEffectParam("ledgerAccountKey", value = gems.ledgerAccountKey.toString()),
            ),
        )
    val action =
        CampaignActionBody(
            ActionEffects(listOf(points, parts)),
            ActionStatus.running,
            1,
            rules = ActionRules(expression = "order.total >= 1"),
        )
    campaigns.createAction(organization, campaign.campaignId, action)

    // Members, an event of one of them, and what it gave.
    val members = MembersApi(url)
    listOf("ben", "cleo", "dora", "eve").forEach { members.createMember(MemberCreate(it)) }
    val ana =
        MemberCreate(
            "ana",
            publicLoyaltyMemberId = "A-1",
            profile = MemberProfileInput(birthdate = LocalDate.of(1992, 2, 29)),
            customAttributes = mapOf("drink" to "flat white"),
        )
    members.createMember(ana)
    // A model with fields of your own is a map, of which only the entries are sent.
    val payload = EventPayload()
    payload["order"] = OrderPayload("order-1", total = BigDecimal("16777217.55"))
    val purchase =
        TrackedEvent(
            "ana",
            "sale-1",
            "member-purchase-order-created",
            externalEventDate = OffsetDateTime.parse("2026-03-02T08:15:00Z"),
            payload = payload,
        )
    val amounts =
        EventsApi(url).trackEvents(TrackRequest(listOf(purchase))).results.first().effects.flatMap { effect ->
            effect.params.filter { it.id == "amount" }.map { BigDecimal(it.value.toString()).toPlainString() }
        }

    // A long decimal.
    val mint = MemberPointsRequest(BigDecimal(setting("DECIMAL")), ledgerAccountId = gems.ledgerAccountId)
    loyalty.administration.apis.MembersApi(url).mintMemberPoints(organization, "ben", mint)
    val balances = members.getMember("ben", true).loyaltyMember.ledgerBalances.orEmpty()
    val decimal = balances.single { it.ledgerAccountId == gems.ledgerAccountId }.balance.toPlainString()

    // An update changes one field, the others stay. No model sends null, so a request of its own clears.
    val patched = members.updateMember("ana", MemberUpdate(publicLoyaltyMemberId = "A-2")).loyaltyMember
    val emptied = """{"publicLoyaltyMemberId": null}""".toRequestBody("application/json".toMediaType())
    val clear = Request.Builder().url("$url/members/ana").header("Authorization", "Bearer $token").patch(emptied).build()
    val answer = ApiClient.defaultClient.newCall(clear).execute().use { it.body.string() }
    val cleared = json.readValue(answer, LoyaltyMemberEnvelope::class.java).loyaltyMember

    // A book with codes of its own: one is assigned and used.
    val books = CouponBooksApi(url)
    val input =
        CouponBookInput(
            CouponBookInput.PublishingStatus.published,
            CouponBookType.list,
            "Free flat white",
            tags = listOf("coffee"),
            channels = listOf("app"),
            customAttributes = mapOf("cup" to "large"),
        )
    val book = books.createCouponBook(input).couponBook.couponBookKey
    books.addCouponBookCoupons(book, CouponCodes(listOf("FLAT-1")))
    val renamed = books.updateCouponBook(book, CouponBookChange(name = "Free espresso")).couponBook
    val coupons = MemberCouponsApi(url)
    val assignment = CouponAssignment(systemUniqueKey = "assign-1", amount = 1)
    val assigned = coupons.assignCoupon("ana", book, assignment).couponUsage
    val use = { key: String -> coupons.useCoupon("ana", book, CouponUse(systemUniqueKey = key, code = "FLAT-1")) }
    val used = use("use-1").couponUsage

    // Lists: all pages, then filters.
    val pages =
        generateSequence(0) { it + 1 }
            .map { members.listMembers(page = it, limit = 2, order = "createdAt,asc").results }
            .takeWhile { it.isNotEmpty() }
            .toList()
    val found = members.listMembers(loyaltyMemberId = "cleo").results
    val later = members.listMembers(fromCreatedAt = OffsetDateTime.parse("2099-01-01T00:00:00Z"))

    val seen =
        mapOf(
            "amounts" to amounts,
            "decimal" to decimal,
            "validFrom" to campaign.validFrom?.toInstant().toString(),
            "patched" to
                mapOf(
                    "publicLoyaltyMemberId" to patched.publicLoyaltyMemberId,
                    "birthdate" to patched.profile.birthdate.toString(),
                    "customAttributes" to patched.customAttributes,
                ),
            "cleared" to cleared.publicLoyaltyMemberId,
            "book" to
                mapOf(
                    "name" to renamed.name,
                    "tags" to renamed.tags,
                    "channels" to renamed.channels,
                    "customAttributes" to renamed.customAttributes,
                ),
            "coupons" to listOf(assigned.code, used.code),
            "members" to pages.flatten().map { it.loyaltyMemberId },
            "pages" to pages.size,
            "found" to found.map { it.loyaltyMemberId },
            "later" to later.total,
            "problems" to
                listOf(
                    problemOf { members.createMember(MemberCreate(" ana")) },
                    problemOf { members.getMember("nobody") },
                    problemOf { members.createMember(MemberCreate("ana")) },
                    problemOf { use("use-2") },
                ),
        )
    println(com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(seen))
}
