<?php
/** The journey by the clients that openapi-generator makes for PHP; it prints what it saw as JSON. */

declare(strict_types=1);

use Loyalty\Administration;
use Loyalty\Integration;

require getenv('JOURNEY_AUTOLOAD');
spl_autoload_register(function (string $class): void {
    [$vendor, $surface, $name] = explode('\\', $class, 3) + ['', '', ''];
    if ($vendor === 'Loyalty') {
        require_once __DIR__ . '/' . strtolower($surface) . '/lib/' . strtr($name, '\\', '/') . '.php';
    }
});
// All classes compile, also those that the journey does not need.
foreach (glob(__DIR__ . '/*/lib/{Api,Model}/*.php', GLOB_BRACE) as $file) {
    require_once $file;
}

/** The parts of the problem, by which programs decide, that a call is refused with. */
function problemOf(callable $call): array
{
    try {
        $call();
    } catch (Integration\ApiException $refused) {
        $problem = json_decode($refused->getResponseBody(), true);
        $pointers = array_column($problem['errors'] ?? [], 'pointer');
        return ['status' => $problem['status'], 'type' => $problem['type'], 'pointers' => $pointers];
    }
    throw new LogicException('a problem was expected');
}

/** A number as text, without an exponent or zeros at the end. */
function shown(mixed $number): string
{
    return json_encode($number);
}

$url = getenv('JOURNEY_URL');
$organizationId = (int) getenv('JOURNEY_ORGANIZATION_ID');
$ledgerId = (int) getenv('JOURNEY_LEDGER_ID');
$http = new GuzzleHttp\Client();

// Else booleans of the query are sent as 1 and 0, which are refused. Only the default configuration decides it.
Integration\Configuration::getDefaultConfiguration()
    ->setBooleanFormatForQueryString(Integration\Configuration::BOOLEAN_FORMAT_STRING);
$anonymous = (new Integration\Configuration())->setHost($url);
$token = (new Integration\Api\AuthApi($http, $anonymous))->createAccessToken(
    'client_credentials',
    getenv('JOURNEY_CLIENT_ID'),
    getenv('JOURNEY_CLIENT_SECRET'),
);
$shop = (new Integration\Configuration())->setHost($url)->setAccessToken($token->getAccessToken());
$members = new Integration\Api\MembersApi($http, $shop);
$books = new Integration\Api\CouponBooksApi($http, $shop);
$coupons = new Integration\Api\MemberCouponsApi($http, $shop);
$events = new Integration\Api\EventsApi($http, $shop);
$office = (new Administration\Configuration())->setHost($url)->setAccessToken(getenv('JOURNEY_ADMIN_TOKEN'));

// An account with six decimals, and a campaign that gives whole points and parts of gems.
$account = new Administration\Model\LedgerAccountCreate([
    'name' => 'Gems', 'alias' => 'gems', 'active' => true, 'is_revolving' => true, 'chain_sync_enabled' => false,
    'decimals' => 6,
]);
$gems = (new Administration\Api\LedgersApi($http, $office))
    ->createLedgerAccount($organizationId, $ledgerId, $account)->getLedgerAccount();
$campaigns = new Administration\Api\CampaignsApi($http, $office);
$campaign = $campaigns->createCampaign($organizationId, new Administration\Model\CampaignBody([
    'code' => 'spend', 'name' => 'Spend', 'event_type' => 'member-purchase-order-created',
    'valid_from' => new DateTime('2026-01-01T00:00:00-03:00'),
]))->getCampaign();
$pointsEffect = new Administration\Model\ActionEffect(['effect_id' => 'mint-points', 'params' => [
    new Administration\Model\ActionEffectParam(['id' => 'amount', 'expression' => 'floor(order.total)']),
]]);
$gemsEffect = new Administration\Model\ActionEffect(['effect_id' => 'mint-points', 'params' => [
    new Administration\Model\ActionEffectParam(['id' => 'amount', 'expression' => 'order.total']),
    new Administration\Model\ActionEffectParam([
        'id' => 'ledgerAccountKey', 'value' => $gems->getLedgerAccountKey(),
    ]),
]]);
$campaigns->createAction($organizationId, $campaign->getCampaignId(), new Administration\Model\CampaignActionBody([
    'rules' => new Administration\Model\ActionRules(['expression' => 'order.total >= 1']),
    'effects' => new Administration\Model\ActionEffects(['items' => [$pointsEffect, $gemsEffect]]),
    'status' => Administration\Model\ActionStatus::RUNNING,
    'priority' => 1,
]));

// Members, an event of one of them, and what it gave.
foreach (['ben', 'cleo', 'dora', 'eve'] as $name) {
    $members->createMember(new Integration\Model\MemberCreate(['loyalty_member_id' => $name]));
}
$members->createMember(new Integration\Model\MemberCreate([
    'loyalty_member_id' => 'ana',
    'public_loyalty_member_id' => 'A-1',
    'profile' => new Integration\Model\MemberProfileInput(['birthdate' => new DateTime('1992-02-29')]),
    'custom_attributes' => ['drink' => 'flat white'],
]));
$purchase = new Integration\Model\TrackedEvent([
    'loyalty_member_id' => 'ana',
    'system_unique_key' => 'sale-1',
    'event_type' => 'member-purchase-order-created',
    'external_event_date' => new DateTime('2026-03-02T08:15:00Z'),
    'payload' => new Integration\Model\EventPayload([
        'order' => new Integration\Model\OrderPayload(['external_id' => 'order-1', 'total' => 16777217.55]),
    ]),
]);
[$result] = $events->trackEvents(new Integration\Model\TrackRequest(['events' => [$purchase]]))->getResults();
$amounts = [];
foreach ($result->getEffects() as $effect) {
    foreach ($effect->getParams() as $given) {
        if ($given->getId() === 'amount') {
            $amounts[] = shown($given->getValue());
        }
    }
}
// The method that the name mapping makes of trackEventsAsync: the same event is queued no second time.
[$queued] = $events->queueEvents(new Integration\Model\TrackAsyncRequest(['events' => [$purchase]]))->getResults();
if ($queued->getLoyaltyEventKey() !== $result->getLoyaltyEventKey()) {
    throw new LogicException('the event was queued again');
}

// A long decimal; floats have 15 digits.
(new Administration\Api\MembersApi($http, $office))->mintMemberPoints(
    $organizationId,
    'ben',
    new Administration\Model\MemberPointsRequest([
        'amount' => (float) getenv('JOURNEY_DECIMAL'), 'ledger_account_id' => $gems->getLedgerAccountId(),
    ]),
);
$decimal = null;
foreach ($members->getMember('ben', true)->getLoyaltyMember()->getLedgerBalances() as $held) {
    if ($held->getLedgerAccountId() === $gems->getLedgerAccountId()) {
        $decimal = shown($held->getBalance());
    }
}

// Updates: one field changes, the others stay; null clears.
$changed = new Integration\Model\MemberUpdate(['public_loyalty_member_id' => 'A-2']);
$patched = $members->updateMember('ana', $changed)->getLoyaltyMember();
$emptied = new Integration\Model\MemberUpdate(['public_loyalty_member_id' => null]);
$cleared = $members->updateMember('ana', $emptied)->getLoyaltyMember();

// A book with codes of its own: one is assigned and used.
$book = $books->createCouponBook(new Integration\Model\CouponBookInput([
    'publishing_status' => 'published', 'type' => Integration\Model\CouponBookType::_LIST, 'name' => 'Free flat white',
    'tags' => ['coffee'], 'channels' => ['app'], 'custom_attributes' => ['cup' => 'large'],
]))->getCouponBook()->getCouponBookKey();
$books->addCouponBookCoupons($book, new Integration\Model\CouponCodes(['codes' => ['FLAT-1']]));
$renamed = $books->updateCouponBook($book, new Integration\Model\CouponBookChange(['name' => 'Free espresso']))
    ->getCouponBook();
$assigned = $coupons->assignCoupon(
    'ana',
    $book,
    new Integration\Model\CouponAssignment(['system_unique_key' => 'assign-1', 'amount' => 1]),
)->getCouponUsage();
$use = new Integration\Model\CouponUse(['system_unique_key' => 'use-1', 'code' => 'FLAT-1']);
$used = $coupons->useCoupon('ana', $book, $use)->getCouponUsage();

// Lists: all pages, then filters.
$listed = [];
for ($pages = 0; $results = $members->listMembers($pages, 2, order: 'createdAt,asc')->getResults(); $pages++) {
    foreach ($results as $member) {
        $listed[] = $member->getLoyaltyMemberId();
    }
}
$found = [];
foreach ($members->listMembers(loyalty_member_id: 'cleo')->getResults() as $member) {
    $found[] = $member->getLoyaltyMemberId();
}
// Moments in a query are texts.
$later = $members->listMembers(from_created_at: '2099-01-01T00:00:00Z');

$again = new Integration\Model\CouponUse(['system_unique_key' => 'use-2', 'code' => 'FLAT-1']);
$isoDate = 'Y-m-d\TH:i:s\Z';
echo json_encode([
    'amounts' => $amounts,
    'decimal' => $decimal,
    'validFrom' => $campaign->getValidFrom()->setTimezone(new DateTimeZone('UTC'))->format($isoDate),
    'patched' => [
        'publicLoyaltyMemberId' => $patched->getPublicLoyaltyMemberId(),
        'birthdate' => $patched->getProfile()->getBirthdate()->format('Y-m-d'),
        'customAttributes' => $patched->getCustomAttributes(),
    ],
    'cleared' => $cleared->getPublicLoyaltyMemberId(),
    'book' => [
        'name' => $renamed->getName(),
        'tags' => $renamed->getTags(),
        'channels' => $renamed->getChannels(),
        'customAttributes' => $renamed->getCustomAttributes(),
    ],
    'coupons' => [$assigned->getCode(), $used->getCode()],
    'members' => $listed,
    'pages' => $pages,
    'found' => $found,
    'later' => $later->getTotal(),
    'problems' => [
        // The constructor does not check what setters refuse.
        problemOf(fn () => $members->createMember(new Integration\Model\MemberCreate(['loyalty_member_id' => ' ana']))),
        problemOf(fn () => $members->getMember('nobody')),
        problemOf(fn () => $members->createMember(new Integration\Model\MemberCreate(['loyalty_member_id' => 'ana']))),
        problemOf(fn () => $coupons->useCoupon('ana', $book, $again)),
    ],
]), "\n";
