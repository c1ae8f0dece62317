import { hash } from 'node:crypto'
import { entriesOfSale, type LedgerEntry } from '../../core/domain/ledger.ts'
import type { PaymentIdentity, PaymentRecord, PaymentState } from '../../core/domain/payment.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import type { ApiKey, Store } from '../../core/domain/store.ts'
import type { Leases } from '../../core/ports/store/leases.ts'
import type { ClaimRequest, Ledger, PaymentChange } from '../../core/ports/store/ledger.ts'
import type { NewLink } from '../../core/ports/store/links.ts'
import type { Purchases } from '../../core/ports/store/purchases.ts'

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
export interface LedgerUnderTest {
  readonly ledger: Ledger
  readonly leases: Leases
  readonly purchases: Purchases
  readonly clock: TestClock
  /** The store's own time: of leases and due times. */
  readonly storeClock: TestClock
}

/** A payment's key, by a name. */
export const keyOf = (name: string): string => hash('sha256', name)

export const sampleAttempt = {
  settler: 'evm:eip155:84532:0xabc',
  bytes: '0x02f8',
  transaction: '0xfeed',
  sequence: '7',
}

export const sampleResponse = {
  status: 200,
  headers: ['content-type', 'application/json'],
  body: Buffer.from('{"data":1}'),
}

export const sampleClaim = (name: string, more: Partial<ClaimRequest> = {}): ClaimRequest => ({
  key: keyOf(name),
  scheme: 'exact',
  network: 'eip155:84532',
  asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  payer: '0x1111111111111111111111111111111111111111',
  nonce: `0x${name}`,
  payTo: '0x2222222222222222222222222222222222222222',
  amountAtomic: 100_000n,
  validBeforeMs: startMs + 300_000,
  lease: 7,
  linkId: 'link-1',
  sessionId: null,
  storeId: 'store-1',
  requestHash: 'request-1',
  purchaseId: `purchase-of-${name}`,
  payload: '{"x402Version":2}',
  ...more,
})

/** The row of a payment whose settlement is pending, and of which nothing else is known. */
export const samplePayment = (
  identity: PaymentIdentity,
  more: Partial<PaymentRecord> = {},
): PaymentRecord => ({
  ...identity,
  row: 1,
  state: 'pending',
  scheme: 'exact',
  lease: null,
  linkId: 'link-1',
  sessionId: null,
  storeId: 'store-1',
  requestHash: 'request-1',
  purchaseId: 'purchase-1',
  payload: '',
  attempt: null,
  hasResponse: false,
  transaction: null,
  event: null,
  block: null,
  chargedAtomic: null,
  errorReason: null,
  tries: 0,
  dueReason: null,
  claimedAtMs: Date.now(),
  updatedAtMs: Date.now(),
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
  sessionId: claim.sessionId,
  storeId: claim.storeId,
  buyerWallet: claim.payer,
  network: claim.network,
  asset: claim.asset,
  symbol: 'USDC',
  decimals: 6,
  authorizedAtomic: claim.amountAtomic,
  amountAtomic: claim.amountAtomic,
  feeAtomic: 5_000n,
  priceUsd: '0.1',
  txHash,
  status: 'settled',
  reviewTokenHash: 'review-hash',
  createdAtMs: startMs,
  ...more,
})

/** A change that any row may take; `more` says what it is about. */
export const change = (
  { purchaseId }: { readonly purchaseId: string },
  row: number,
  from: PaymentState | readonly PaymentState[],
  to: PaymentState,
  more: Partial<PaymentChange> = {},
): PaymentChange => ({
  row,
  from: typeof from === 'string' ? [from] : from,
  lease: null,
  purchaseId,
  to,
  dueInMs: null,
  durability: 'visible',
  ...more,
})

/** What a settlement brings: the transfer, the purchase and its entries. */
export const saleOf = (
  purchase: Purchase,
  event = '0',
): Pick<PaymentChange, 'settled' | 'purchase' | 'entries' | 'durability'> => ({
  settled: { transaction: purchase.txHash, event, block: 12, chargedAtomic: purchase.amountAtomic },
  purchase,
  entries: entriesOfSale(purchase),
  durability: 'flushed',
})

/** Claims a payment. @throws if it is already claimed */
export async function claimed({ ledger }: { readonly ledger: Ledger }, claim: ClaimRequest): Promise<number> {
  const result = await ledger.claim(claim)
  if (!result.won) throw new Error(`Expected to win the claim of ${claim.key}.`)
  return result.row
}

export interface Sale {
  readonly row: number
  readonly claim: ClaimRequest
  readonly purchase: Purchase
}

/** Takes a payment all the way to its purchase. */
export async function sell(
  under: { readonly ledger: Ledger },
  name: string,
  txHash: string,
  { event, ...more }: Partial<Purchase> & { event?: string } = {},
): Promise<Sale> {
  const claim = sampleClaim(name, more.network && { network: more.network })
  const purchase = samplePurchase(claim, txHash, more)
  const row = await claimed(under, claim)
  const attempt = { settler: 'evm', bytes: '0x1', transaction: txHash, sequence: null }
  await under.ledger.apply(change(claim, row, 'claimed', 'settling', { attempt, durability: 'flushed' }))
  const isSettled = await under.ledger.apply(
    change(claim, row, 'settling', 'settled', saleOf(purchase, event)),
  )
  if (!isSettled) throw new Error(`Expected ${name} to be settled.`)
  return { row, claim, purchase }
}

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
  payoutChangedAtMs: null,
  socials: [],
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
  priceMax: null,
  pricing: null,
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
  access: null,
  settle: 'after',
  upstreamHeadersSealed: null,
  origin: null,
  createdAtMs: startMs,
  updatedAtMs: startMs,
  ...more,
})
