import type { LedgerEntry } from '../../core/domain/ledger.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import type { ApiKey, Store } from '../../core/domain/store.ts'
import type { NewLink } from '../../core/ports/links.ts'
import type { ClaimRequest, Payments } from '../../core/ports/payments.ts'
import type { Purchases } from '../../core/ports/purchases.ts'

/** The first moment of every sample: a Tuesday in 2026. */
export const startMs = Date.UTC(2026, 5, 2, 12)

/** A clock that stands still until a test turns it. */
export interface TestClock {
  nowMs: number
  now(): number
}

export const testClock = (): TestClock => ({
  nowMs: startMs,
  now() {
    return this.nowMs
  },
})

/** A store of its own, empty. */
export interface PaymentsUnderTest {
  readonly payments: Payments
  readonly purchases: Purchases
  readonly clock: TestClock
}

export const sampleAttempt = {
  settler: 'evm:eip155:84532:0xabc',
  bytes: '0x02f8',
  transaction: '0xfeed',
  sequence: '7',
}

export const sampleAnswer = {
  status: 200,
  headers: ['content-type', 'application/json'],
  body: Buffer.from('{"data":1}'),
}

export const sampleClaim = (key: string, more: Partial<ClaimRequest> = {}): ClaimRequest => ({
  key,
  network: 'eip155:84532',
  asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  payer: '0x1111111111111111111111111111111111111111',
  nonce: `0x${key}`,
  payTo: '0x2222222222222222222222222222222222222222',
  amountAtomic: 100_000n,
  validBeforeMs: startMs + 300_000,
  owner: 'gateway-1',
  linkId: 'link-1',
  storeId: 'store-1',
  requestHash: 'request-1',
  purchaseId: `purchase-of-${key}`,
  payload: '{"x402Version":2}',
  ...more,
})

export const samplePurchase = (
  claim: ClaimRequest,
  txHash: string,
  more: Partial<Purchase> = {},
): Purchase => ({
  id: claim.purchaseId,
  paymentKey: claim.key,
  linkId: claim.linkId,
  storeId: claim.storeId,
  buyerWallet: claim.payer,
  network: claim.network,
  asset: claim.asset,
  symbol: 'USDC',
  decimals: 6,
  amountAtomic: claim.amountAtomic,
  feeAtomic: 5_000n,
  priceUsd: '0.1',
  txHash,
  status: 'settled',
  reviewTokenHash: 'review-hash',
  createdAtMs: startMs,
  ...more,
})

/** Two lines that cancel out. */
export const sampleEntries = (claim: ClaimRequest): LedgerEntry[] =>
  ([-1n, 1n] as const).map((sign) => ({
    purchaseId: claim.purchaseId,
    account: sign < 0n ? `buyer:${claim.payer}` : `seller:${claim.storeId}`,
    network: claim.network,
    asset: claim.asset,
    amountAtomic: sign * claim.amountAtomic,
    kind: 'sale',
  }))

export const sampleStore = (id: string, more: Partial<Store> = {}): Store => ({
  id,
  username: id.replaceAll('-', '_'),
  displayName: 'A seller',
  bio: 'Sells weather',
  avatarUrl: 'https://example.test/a.png',
  developerModeEnabled: false,
  createdBy: 'agent',
  payout: { base: '0x2222222222222222222222222222222222222222', solana: null },
  createdAtMs: startMs,
  updatedAtMs: startMs,
  ...more,
})

export const sampleKey = (id: string, storeId: string, more: Partial<ApiKey> = {}): ApiKey => ({
  id,
  storeId,
  name: 'default',
  keyPrefix: 'tg_live_ab',
  keyHash: `hash-of-${id}`,
  isActive: true,
  lastUsedAtMs: null,
  revokedAtMs: null,
  createdAtMs: startMs,
  ...more,
})

export const sampleLink = (id: string, storeId: string, more: Partial<NewLink> = {}): NewLink => ({
  id,
  storeId,
  url: 'https://seller.test/weather',
  title: 'Weather',
  description: 'The weather of a city',
  slug: id,
  price: '0.10',
  isPublic: true,
  isActive: true,
  linkType: 'api',
  isStealth: false,
  privateSlug: null,
  webhookUrl: null,
  methods: ['GET', 'POST'],
  inputSchema: { type: 'object', properties: { city: { type: 'string' } } },
  outputExample: { celsius: 21 },
  tags: ['weather', 'météo'],
  iconUrl: null,
  responseMode: 'wrap',
  settle: 'after',
  upstreamHeadersSealed: null,
  createdAtMs: startMs,
  updatedAtMs: startMs,
  ...more,
})
