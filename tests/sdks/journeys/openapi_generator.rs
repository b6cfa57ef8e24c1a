//! The journey by the clients that openapi-generator makes for Rust; it prints what it saw as JSON.

#![deny(warnings)]

use std::collections::HashMap;
use std::env;

use loyalty_administration::apis as office_calls;
use loyalty_administration::models as office_models;
use loyalty_integration::apis::{
    auth_api, coupon_books_api, events_api, member_coupons_api, members_api, Error,
};
use loyalty_integration::models;
use serde_json::value::RawValue;
use serde_json::{json, Value};

fn setting(name: &str) -> String {
    env::var(format!("JOURNEY_{name}")).unwrap_or_else(|_| panic!("JOURNEY_{name} is missing"))
}

fn number(name: &str) -> i64 {
    setting(name).parse().expect("a whole number")
}

/// What an error says, with the text of the answer where there is one.
fn explain<T>(error: Error<T>) -> String {
    match error {
        Error::ResponseError(answer) => answer.content,
        other => other.to_string(),
    }
}

/// The parts of the problem, by which programs decide, that a call is refused with.
fn told<Body, T>(answer: Result<Body, Error<T>>) -> Value {
    let Err(Error::ResponseError(refused)) = answer else {
        panic!("a problem was expected")
    };
    let problem: models::Problem = serde_json::from_str(&refused.content).expect("a problem");
    let faults = problem.errors.unwrap_or_default();
    let pointers: Vec<_> = faults.into_iter().filter_map(|fault| fault.pointer).collect();
    json!({"status": problem.status, "type": problem.r#type, "pointers": pointers})
}

fn attributes(name: &str, value: &str) -> Option<HashMap<String, Value>> {
    Some(HashMap::from([(name.to_string(), json!(value))]))
}

fn text(value: &str) -> Option<Option<String>> {
    Some(Some(value.to_string()))
}

fn effect_param(id: &str, value: Option<Value>, expression: Option<&str>) -> office_models::ActionEffectParam {
    office_models::ActionEffectParam {
        value: value.map(Some),
        expression: expression.map(|words| Some(words.to_string())),
        ..office_models::ActionEffectParam::new(id.to_string())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = setting("URL");
    let organization = number("ORGANIZATION_ID");
    let mut shop = loyalty_integration::apis::configuration::Configuration::new();
    shop.base_path = url.clone();
    let (id, secret) = (setting("CLIENT_ID"), setting("CLIENT_SECRET"));
    let token = auth_api::create_access_token(&shop, "client_credentials", Some(&id), Some(&secret), None, None, None)
        .await
        .map_err(explain)
        .unwrap();
    shop.bearer_access_token = Some(token.access_token);
    let mut office = office_calls::configuration::Configuration::new();
    office.base_path = url;
    office.bearer_access_token = Some(setting("ADMIN_TOKEN"));

    // An account with six decimals, and a campaign that gives whole points and parts of gems.
    let account = office_models::LedgerAccountCreate {
        alias: text("gems"),
        decimals: Some(6),
        ..office_models::LedgerAccountCreate::new("Gems".to_string(), true, true, false)
    };
    let gems = office_calls::ledgers_api::create_ledger_account(&office, organization, number("LEDGER_ID"), account)
        .await
        .unwrap()
        .ledger_account;
    let spend = office_models::CampaignBody {
        event_type: text("member-purchase-order-created"),
        valid_from: Some(Some("2026-01-01T00:00:00-03:00".to_string())),
        ..office_models::CampaignBody::new("spend".to_string(), "Spend".to_string())
    };
    let campaign = office_calls::campaigns_api::create_campaign(&office, organization, spend).await.unwrap().campaign;
    let gem_key = json!(gems.ledger_account_key);
    let effects = [
        vec![effect_param("amount", None, Some("floor(order.total)"))],
        vec![effect_param("amount", None, Some("order.total")), effect_param("ledgerAccountKey", Some(gem_key), None)],
    ];
    let effects = effects.map(|params| office_models::ActionEffect::new("mint-points".to_string(), params)).to_vec();
    let rules = office_models::ActionRules { expression: text("order.total >= 1"), node: None };
    let action = office_models::CampaignActionBody {
        rules: Some(Box::new(rules)),
        ..office_models::CampaignActionBody::new(
            office_models::ActionEffects::new(effects),
            office_models::ActionStatus::Running,
            1,
        )
    };
    office_calls::campaigns_api::create_action(&office, organization, campaign.campaign_id, action).await.unwrap();

    // Members, an event of one of them, and what it gave.
    for name in ["ben", "cleo", "dora", "eve"] {
        members_api::create_member(&shop, models::MemberCreate::new(name.to_string())).await.unwrap();
    }
    let profile = models::MemberProfileInput { birthdate: text("1992-02-29"), ..Default::default() };
    let ana = models::MemberCreate {
        public_loyalty_member_id: text("A-1"),
        profile: Some(Box::new(profile)),
        custom_attributes: attributes("drink", "flat white"),
        ..models::MemberCreate::new("ana".to_string())
    };
    members_api::create_member(&shop, ana).await.map_err(explain).unwrap();
    let order = models::OrderPayload { total: Some(16777217.55), ..models::OrderPayload::new("order-1".to_string()) };
    let purchase = models::TrackedEvent {
        external_event_date: text("2026-03-02T08:15:00Z"),
        payload: Some(models::EventPayload { order: Some(Box::new(order)), ..Default::default() }),
        ..models::TrackedEvent::new(
            "ana".to_string(),
            "sale-1".to_string(),
            "member-purchase-order-created".to_string(),
        )
    };
    let tracked = events_api::track_events(&shop, models::TrackRequest::new(vec![purchase])).await.unwrap();
    let params = tracked.results[0].effects.iter().flat_map(|effect| &effect.params);
    let amounts: Vec<_> = params.filter(|param| param.id == "amount").map(|param| param.value.clone()).collect();
    let amounts: Vec<_> = amounts.into_iter().map(|amount| amount.expect("an amount").to_string()).collect();

    // A long decimal; f64 has 15 digits.
    let mint = office_models::MemberPointsRequest {
        ledger_account_id: Some(Some(gems.ledger_account_id)),
        ..office_models::MemberPointsRequest::new(setting("DECIMAL").parse().expect("a number"))
    };
    office_calls::members_api::mint_member_points(&office, organization, "ben", mint).await.unwrap();
    let ben = members_api::get_member(&shop, "ben", Some(true), None).await.unwrap().loyalty_member;
    let held = ben.ledger_balances.expect("balances");
    let decimal = held.iter().find(|balance| balance.ledger_account_id == gems.ledger_account_id).unwrap().balance;

    // A longer one: its text is sent, and taken out of the answer's.
    let exact = setting("EXACT");
    let mint = format!(r#"{{"amount": {exact}, "ledgerAccountId": {}}}"#, gems.ledger_account_id);
    let path = format!("{}/organizations/{organization}/members/by-loyalty-member-id/cleo/mint", office.base_path);
    let request = office.client.post(path).bearer_auth(setting("ADMIN_TOKEN")).header("Content-Type", "application/json");
    let answer = request.body(mint).send().await.unwrap().error_for_status().unwrap().text().await.unwrap();
    let answer: HashMap<String, Vec<HashMap<String, Box<RawValue>>>> = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["ledgerTransactions"][0]["amount"].get(), exact);

    // Updates: one field changes, the others stay; null clears.
    let change = models::MemberUpdate { public_loyalty_member_id: text("A-2"), ..Default::default() };
    let patched = members_api::update_member(&shop, "ana", Some(change)).await.unwrap().loyalty_member;
    let emptied = models::MemberUpdate { public_loyalty_member_id: Some(None), ..Default::default() };
    let cleared = members_api::update_member(&shop, "ana", Some(emptied)).await.unwrap().loyalty_member;

    // A book with codes of its own: one is assigned and used.
    let input = models::CouponBookInput {
        tags: Some(vec!["coffee".to_string()]),
        channels: Some(Some(vec!["app".to_string()])),
        custom_attributes: attributes("cup", "large"),
        ..models::CouponBookInput::new(
            models::coupon_book_input::PublishingStatus::Published,
            models::CouponBookType::List,
            "Free flat white".to_string(),
        )
    };
    let book = coupon_books_api::create_coupon_book(&shop, input).await.unwrap().coupon_book.coupon_book_key.to_string();
    let codes = models::CouponCodes::new(vec!["FLAT-1".to_string()]);
    coupon_books_api::add_coupon_book_coupons(&shop, &book, codes).await.unwrap();
    let name = models::CouponBookChange { name: Some("Free espresso".to_string()), ..Default::default() };
    let renamed = coupon_books_api::update_coupon_book(&shop, &book, Some(name)).await.unwrap().coupon_book;
    let assignment =
        models::CouponAssignment { system_unique_key: text("assign-1"), amount: Some(1), ..Default::default() };
    let assigned = member_coupons_api::assign_coupon(&shop, "ana", &book, Some(assignment)).await.unwrap().coupon_usage;
    let usage = |key: &str| {
        Some(models::CouponUse { system_unique_key: text(key), code: text("FLAT-1"), ..Default::default() })
    };
    let used = member_coupons_api::use_coupon(&shop, "ana", &book, usage("use-1")).await.unwrap().coupon_usage;

    // Lists: all pages, then filters.
    let mut listed = vec![];
    let mut pages = 0;
    loop {
        let order = Some("createdAt,asc");
        let page =
            members_api::list_members(&shop, Some(pages), Some(2), None, order, None, None, None, None, None).await;
        let results = page.unwrap().results;
        if results.is_empty() {
            break;
        }
        listed.extend(results.into_iter().map(|member| member.loyalty_member_id));
        pages += 1;
    }
    let found = members_api::list_members(&shop, None, None, None, None, None, Some("cleo"), None, None, None).await;
    let found: Vec<_> = found.unwrap().results.into_iter().map(|member| member.loyalty_member_id).collect();
    let moment = Some("2099-01-01T00:00:00Z".to_string());
    let later = members_api::list_members(&shop, None, None, None, None, None, None, None, moment, None).await;

    let anew = |name: &str| members_api::create_member(&shop, models::MemberCreate::new(name.to_string()));
    let seen = json!({
        "amounts": amounts,
        "decimal": decimal.to_string(),
        "validFrom": campaign.valid_from,
        "patched": {
            "publicLoyaltyMemberId": patched.public_loyalty_member_id,
            "birthdate": patched.profile.birthdate,
            "customAttributes": patched.custom_attributes,
        },
        "cleared": cleared.public_loyalty_member_id,
        "book": {
            "name": renamed.name,
            "tags": renamed.tags,
            "channels": renamed.channels,
            "customAttributes": renamed.custom_attributes,
        },
        "coupons": [assigned.code, used.code],
        "members": listed,
        "pages": pages,
        "found": found,
        "later": later.map_err(explain).unwrap().total,
        "problems": [
            told(anew(" ana").await),
            told(members_api::get_member(&shop, "nobody", None, None).await),
            told(anew("ana").await),
            told(member_coupons_api::use_coupon(&shop, "ana", &book, usage("use-2")).await),
        ],
    });
    println!("{seen}");
}
