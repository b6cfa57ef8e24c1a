# frozen_string_literal: true

# The journey by the clients that openapi-generator makes for Ruby; it prints what it saw as JSON.

require 'bigdecimal'
require 'json'
require 'uri'
require 'loyalty_administration'
require 'loyalty_integration'

Administration = LoyaltyAdministration
Integration = LoyaltyIntegration

# A client of one of the interfaces.
def client_of(surface, token)
  url = URI(ENV.fetch('JOURNEY_URL'))
  configuration = surface::Configuration.new
  configuration.scheme = url.scheme
  configuration.host = "#{url.host}:#{url.port}"
  configuration.base_path = url.path
  configuration.access_token = token
  surface::ApiClient.new(configuration)
end

# The parts of the problem, by which programs decide, that a call is refused with.
def problem_of
  yield
rescue Integration::ApiError => e
  problem = Integration::Problem.build_from_hash(JSON.parse(e.response_body))
  pointers = (problem.errors || []).map(&:pointer)
  { status: problem.status, type: problem.type, pointers: pointers }
else
  raise 'a problem was expected'
end

# A number as text, without zeros at the end.
def plain(number)
  number == number.to_i ? number.to_i.to_s : BigDecimal(number.to_s).to_s('F')
end

organization_id = Integer(ENV.fetch('JOURNEY_ORGANIZATION_ID'))
ledger_id = Integer(ENV.fetch('JOURNEY_LEDGER_ID'))

auth = Integration::AuthApi.new(client_of(Integration, nil))
token = auth.create_access_token(
  'client_credentials',
  client_id: ENV.fetch('JOURNEY_CLIENT_ID'), client_secret: ENV.fetch('JOURNEY_CLIENT_SECRET')
)
shop = client_of(Integration, token.access_token)
members = Integration::MembersApi.new(shop)
books = Integration::CouponBooksApi.new(shop)
coupons = Integration::MemberCouponsApi.new(shop)
office = client_of(Administration, ENV.fetch('JOURNEY_ADMIN_TOKEN'))

# An account with six decimals, and a campaign that gives whole points and parts of gems.
account = Administration::LedgerAccountCreate.new(
  name: 'Gems', _alias: 'gems', active: true, is_revolving: true, chain_sync_enabled: false, decimals: 6
)
gems = Administration::LedgersApi.new(office).create_ledger_account(organization_id, ledger_id, account).ledger_account
campaigns = Administration::CampaignsApi.new(office)
campaign = campaigns.create_campaign(
  organization_id,
  Administration::CampaignBody.new(
    code: 'spend', name: 'Spend', event_type: 'member-purchase-order-created',
    valid_from: '2026-01-01T00:00:00-03:00'
  )
).campaign
points_effect = Administration::ActionEffect.new(
  effect_id: 'mint-points',
  params: [Administration::ActionEffectParam.new(id: 'amount', expression: 'floor(order.total)')]
)
gems_effect = Administration::ActionEffect.new(
  effect_id: 'mint-points',
  params: [
    Administration::ActionEffectParam.new(id: 'amount', expression: 'order.total'),
    Administration::ActionEffectParam.new(id: 'ledgerAccountKey', value: gems.ledger_account_key)
  ]
)
campaigns.create_action(
  organization_id,
  campaign.campaign_id,
  Administration::CampaignActionBody.new(
    rules: Administration::ActionRules.new(expression: 'order.total >= 1'),
    effects: Administration::ActionEffects.new(items: [points_effect, gems_effect]),
    status: Administration::ActionStatus::RUNNING,
    priority: 1
  )
)

# Members, an event of one of them, and what it gave.
%w[ben cleo dora eve].each { |name| members.create_member(Integration::MemberCreate.new(loyalty_member_id: name)) }
members.create_member(
  Integration::MemberCreate.new(
    loyalty_member_id: 'ana',
    public_loyalty_member_id: 'A-1',
    profile: Integration::MemberProfileInput.new(birthdate: Date.new(1992, 2, 29)),
    custom_attributes: { drink: 'flat white' }
  )
)
purchase = Integration::TrackedEvent.new(
  loyalty_member_id: 'ana',
  system_unique_key: 'sale-1',
  event_type: 'member-purchase-order-created',
  external_event_date: '2026-03-02T08:15:00Z',
  # A model has only the declared fields; a Hash can have fields of your own beside them.
  payload: { order: Integration::OrderPayload.new(external_id: 'order-1', total: 16_777_217.55), table: 7 }
)
events = Integration::EventsApi.new(shop)
result = events.track_events(Integration::TrackRequest.new(events: [purchase])).results.first
params = result.effects.flat_map(&:params)
amounts = params.select { |param| param.id == 'amount' }.map { |param| plain(param.value) }
stored = events.get_event(result.loyalty_event_key, include: ['payload']).event.payload
raise "the payload was #{stored}" unless stored['table'] == 7

# A long decimal; floats have 15 digits.
points = Administration::MembersApi.new(office)
mint = Administration::MemberPointsRequest.new(
  amount: Float(ENV.fetch('JOURNEY_DECIMAL')), ledger_account_id: gems.ledger_account_id
)
points.mint_member_points(organization_id, 'ben', mint)
balances = members.get_member('ben', include_balance: true).loyalty_member.ledger_balances
decimal = plain(balances.find { |balance| balance.ledger_account_id == gems.ledger_account_id }.balance)

# A longer one: its text is sent, and taken out of the answer's.
exact = ENV.fetch('JOURNEY_EXACT')
minted = points.mint_member_points(
  organization_id,
  'cleo',
  %({"amount": #{exact}, "ledgerAccountId": #{gems.ledger_account_id}}),
  debug_return_type: 'String'
)
minted = JSON.parse(minted, decimal_class: BigDecimal)['ledgerTransactions'].first['amount']
raise "the amount was #{minted}" unless minted == BigDecimal(exact)

# Updates: one field changes, the others stay; null clears.
change = Integration::MemberUpdate.new(public_loyalty_member_id: 'A-2')
patched = members.update_member('ana', member_update: change).loyalty_member
emptied = Integration::MemberUpdate.new(public_loyalty_member_id: nil)
cleared = members.update_member('ana', member_update: emptied).loyalty_member

# A book with codes of its own: one is assigned and used.
input = Integration::CouponBookInput.new(
  publishing_status: 'published', type: Integration::CouponBookType::LIST, name: 'Free flat white',
  tags: ['coffee'], channels: ['app'], custom_attributes: { cup: 'large' }
)
book = books.create_coupon_book(input).coupon_book.coupon_book_key
books.add_coupon_book_coupons(book, Integration::CouponCodes.new(codes: ['FLAT-1']))
name = Integration::CouponBookChange.new(name: 'Free espresso')
renamed = books.update_coupon_book(book, coupon_book_change: name).coupon_book
assignment = Integration::CouponAssignment.new(system_unique_key: 'assign-1', amount: 1)
assigned = coupons.assign_coupon('ana', book, coupon_assignment: assignment).coupon_usage
use = lambda do |key|
  coupons.use_coupon('ana', book, coupon_use: Integration::CouponUse.new(system_unique_key: key, code: 'FLAT-1'))
end
used = use.call('use-1').coupon_usage

# Lists: all pages, then filters.
listed = []
pages = 0
loop do
  results = members.list_members(page: pages, limit: 2, order: 'createdAt,asc').results
  break if results.empty?

  listed.concat(results.map(&:loyalty_member_id))
  pages += 1
end
found = members.list_members(loyalty_member_id: 'cleo').results
later = members.list_members(from_created_at: '2099-01-01T00:00:00Z')

puts JSON.generate(
  amounts: amounts,
  decimal: decimal,
  validFrom: campaign.valid_from,
  patched: {
    publicLoyaltyMemberId: patched.public_loyalty_member_id,
    birthdate: patched.profile.birthdate.iso8601,
    customAttributes: patched.custom_attributes
  },
  cleared: cleared.public_loyalty_member_id,
  book: {
    name: renamed.name, tags: renamed.tags, channels: renamed.channels, customAttributes: renamed.custom_attributes
  },
  coupons: [assigned.code, used.code],
  members: listed,
  pages: pages,
  found: found.map(&:loyalty_member_id),
  later: later.total,
  problems: [
    # A model would refuse it before it is sent.
    problem_of { members.create_member({ loyaltyMemberId: ' ana' }) },
    problem_of { members.get_member('nobody') },
    problem_of { members.create_member(Integration::MemberCreate.new(loyalty_member_id: 'ana')) },
    problem_of { use.call('use-2') }
  ]
)
