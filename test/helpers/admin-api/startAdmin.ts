import { randomBytes } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { Test } from 'tap'
import { createReceiptSigner } from '../../../adapters/chains/evm/receiptSigner.ts'
import { createEgress } from '../../../adapters/egress/egress.ts'
import { createChanges } from '../../../adapters/memory/changes.ts'
import { createMemoryCounters } from '../../../adapters/memory/counters.ts'
import { createSealer } from '../../../adapters/secrets/sealer.ts'
import type { AdminApiDeps, AdminLimits, Feature } from '../../../admin-api/deps.ts'
import { type AdminApi, createAdminApi } from '../../../admin-api/server.ts'
import { builtInAssets } from '../../../core/domain/asset.ts'
import { isPaid } from '../../../core/domain/link.ts'
import { parseAmount } from '../../../core/domain/money.ts'
import { PaymentEngine } from '../../../core/payments/engine.ts'
import { createPurchaseNotes } from '../../../core/payments/purchase.ts'
import { createTransfers } from '../../../core/payments/transfers.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { Change } from '../../../core/ports/store/changes.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { testAsset } from '../settler.ts'
import { openTestStore } from '../store/testStore.ts'
import { documented } from './documented.ts'
import { evmWallet, type Wallet, walletProofsOf } from './wallets.ts'

export const publicUrl = 'https://pay.example'

/** Wide, so that only tests about limits meet them. */
const wide: AdminLimits = {
  keyPerMinute: 1e6,
  keyPerHour: 1e6,
  dashboardPerMinute: 1e6,
  newKeysPerHour: 1e6,
  noncePerMinute: 1e6,
  signupPerHour: 1e6,
  storePerMinute: 1e6,
  discoverPerMinute: 1e6,
  reviewsPerHour: 1e6,
  sessionPollsPerMinute: 1e6,
  mcpPerMinute: 1e6,
  paymentAttemptsPerMinute: 1e6,
  badKeyPerMinute: 1e6,
}

/** What a 402 on Base Sepolia would offer. */
export const termsOf: AdminApiDeps['termsOf'] = ({ price, payout }) =>
  isPaid({ price }) && payout.base !== null
    ? [
        {
          scheme: 'exact',
          network: 'eip155:84532',
          amount: String(parseAmount(price, 6)),
          asset: testAsset,
          payTo: payout.base,
          maxTimeoutSeconds: 300,
          extra: { name: 'USDC' },
        },
      ]
    : []

export interface Answer {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of every shape
  readonly body: any
}

export interface CallOptions {
  readonly body?: unknown
  readonly key?: string
  readonly headers?: Record<string, string>
  readonly ip?: string
}

export interface Fixture {
  readonly admin: AdminApi
  readonly db: DataStore
  readonly clock: { nowMs: number; now(): number }
  readonly sealer: ReturnType<typeof createSealer>
  readonly changes: Change[]
  readonly walletProofs: ReturnType<typeof walletProofsOf>
  /** Errors and warnings that were logged. */
  readonly logged: object[]
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  /** Nonce, signature and sign-up of a wallet. */
  signUp(wallet?: Wallet, more?: object): Promise<Answer>
  /** A store with a wallet on Base, and its key. */
  store(): Promise<{ key: string; username: string; id: string; wallet: Wallet }>
  /** Changes payout wallets the way a seller does: asks for the text, signs it, sends it along. */
  movePayout(key: string, signer: Wallet, payout: object): Promise<Answer>
  /** A seller's API on a real socket. */
  seller(listener?: RequestListener): Promise<string>
}

/** An admin API over real adapters, a clock that is turned by hand, and answers that are measured against the docs. */
export async function startAdmin(
  t: Test,
  overrides: Partial<AdminApiDeps> & {
    limits?: Partial<AdminLimits>
    features?: readonly Feature[]
  } = {},
): Promise<Fixture> {
  const clock = { nowMs: Date.UTC(2026, 5, 1), now: () => clock.nowMs }
  const logged: object[] = []
  const log = {
    ...silentLog,
    warn: (fields: object) => void logged.push(fields),
    error: (fields: object) => void logged.push(fields),
  }
  const db = openTestStore({ clock, log })
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
  const changes: Change[] = []
  const hub = createChanges()
  hub.subscribe((change) => void changes.push(change))
  const sealer = createSealer(randomBytes(32))
  const walletProofs = walletProofsOf()
  const { limits, features, ...deps } = overrides
  const engine = {
    ledger: db.ledger,
    chains: { assets: builtInAssets },
    clock,
    log,
    notes: createPurchaseNotes(sealer, '_svc'),
    lease: { isHeld: true, lapses: 0, current: { id: 1, name: 'test' } },
  }
  const payments = new PaymentEngine(engine)
  const admin = await createAdminApi(
    {
      stores: db.stores,
      images: db.images,
      keys: db.keys,
      nonces: db.nonces,
      browserSessions: db.browserSessions,
      links: db.links,
      purchases: db.purchases,
      fees: db.fees,
      channels: db.channels,
      channelBooks: db.channelBooks,
      stats: db.stats,
      healthChecks: db.healthChecks,
      reviews: db.reviews,
      discovery: db.discovery,
      webhooks: db.webhooks,
      sessions: db.sessions,
      payments,
      notes: engine.notes,
      // No chain: a test that refunds brings its own.
      refundProofs: { prove: async () => ({ status: 'not_configured' }) },
      transfers: createTransfers({ ...engine, sessions: db.sessions }),
      transferProofs: {
        prove: async () => ({ status: 'not_configured' }),
        find: async () => ({ status: 'not_configured' }),
      },
      payers: { read: async () => undefined },
      // No gateway: a test that calls links brings its own.
      linkCalls: { call: async () => undefined },
      walletProofs,
      egress,
      sealer,
      receiptSigner: createReceiptSigner(sealer),
      counters: createMemoryCounters({ clock }),
      changes: hub,
      clock,
      log,
      metrics: { source: { contentType: 'text/plain', text: async () => 'up 1\n' } },
      publicUrl,
      serviceName: 'Tollgate',
      assets: builtInAssets.filter((a) => a.network === 'eip155:84532'),
      feesPayTo: { base: null, solana: null },
      termsOf,
      // No chain: a test that pays brings its own.
      offersOf: () => [],
      payoutFaults: async () => [],
      ready: async () => [],
      ...deps,
      options: { probeTimeoutMs: 2_000, ...deps.options, limits: { ...wide, ...limits } },
    },
    features,
  )
  t.teardown(async () => {
    await admin.close()
    await egress.close()
    // Lets writes that are not awaited, such as lastUsedAt, finish first.
    await db.health()
    await db.close()
  })
  const openApi = JSON.parse(
    // From an address of its own, whose limits no test counts.
    (await admin.inject({ url: '/openapi.json', remoteAddress: '192.0.2.99' })).body,
  )
  const problemsOf = documented(openApi)

  const fixture: Fixture = {
    admin,
    db,
    clock,
    sealer,
    changes,
    walletProofs,
    logged,
    async call(method, path, { body, key, headers, ip } = {}) {
      const response = await admin.inject({
        method: method as 'GET',
        url: path,
        remoteAddress: ip ?? '203.0.113.1',
        headers: {
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(key !== undefined && { authorization: `Bearer ${key}` }),
          ...headers,
        },
        ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      const isJson = String(response.headers['content-type']).startsWith('application/json')
      const parsed = isJson && response.body !== '' ? JSON.parse(response.body) : undefined
      if (isJson && method !== 'HEAD') {
        const problems = problemsOf(method, path, response.statusCode, parsed)
        if (problems.length > 0) t.fail('the answer is not as documented', { problems, response: parsed })
      }
      return {
        status: response.statusCode,
        headers: response.headers as Record<string, unknown>,
        text: response.body,
        body: parsed,
      }
    },
    async signUp(wallet = evmWallet(), more = {}) {
      const { address, chain } = wallet
      const nonce = await fixture.call('POST', '/api/agent/auth/nonce', { body: { address, chain } })
      const { message } = nonce.body.data
      const signature = await wallet.sign(message)
      return fixture.call('POST', '/api/agent/signup', {
        body: { address, chain, message, signature, ...more },
      })
    },
    async store() {
      const wallet = evmWallet()
      const { body } = await fixture.signUp(wallet)
      const { apiKey, store } = body.data
      const profile = await fixture.call('GET', '/api/v1/profile', { key: apiKey })
      return { key: apiKey, username: store.username, id: profile.body.userId, wallet }
    },
    async movePayout(key, signer, payout) {
      const text = await fixture.call('POST', '/api/v1/profile/payout/nonce', { key, body: { payout } })
      if (text.status !== 200) return text
      const { message } = text.body.data
      const payoutProof = { message, signature: await signer.sign(message) }
      return fixture.call('PATCH', '/api/v1/profile', { key, body: { payout, payoutProof } })
    },
    async seller(listener = (_request, response) => response.end('{}')) {
      const server = createServer(listener)
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      t.teardown(() => {
        server.closeAllConnections()
        server.close()
      })
      const { port } = server.address() as { port: number }
      return `http://127.0.0.1:${port}/data`
    },
  }
  return fixture
}
