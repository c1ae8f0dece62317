import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { repositories, stepsOf } from '../../../adapters/store/repositories/calls.ts'
import { migrate } from '../../../adapters/store/sqlite/migrate.ts'
import { createAnswering, runSteps } from '../../../adapters/store/sqlite/templates.ts'
import { SESSION_LIFETIME_MS } from '../../../core/domain/session.ts'
import { sampleKey, sampleLink, sampleStore, startMs } from '../samples.ts'
import { sampleSession } from '../sessions/sessions.ts'
import { endpoint, tried } from '../webhooks/webhookSamples.ts'

const image = (hash: string) => ({ hash, mediaType: 'image/png', bytes: Buffer.from(hash) })
const session = (i: number) => ({
  id: `session${i}`,
  storeId: 's1',
  tokenHash: `hash${i}`,
  wallet: null,
  userAgent: '',
  createdAtMs: startMs,
  lastSeenAtMs: startMs,
  endsAtMs: startMs + 1,
})
const nonce = (i: number) => ({ nonce: `n${i}`, chain: 'base', address: '0xa', message: 'm', expiresAtMs: i })
const review = (i: number) => ({
  id: `review${i}`,
  purchaseId: `purchase${i}`,
  linkId: 'l1',
  storeId: 's1',
  wallet: '0xb',
  isPositive: true,
  comment: null,
  createdAtMs: startMs,
})
const failed = (linkId: string) => ({
  linkId,
  atMs: startMs,
  ok: false,
  status: 500,
  latencyMs: 1,
  detail: 'd',
})
const gone = { try: tried('410'), to: 'failed', disable: { reason: 'gone' } }
/** Bytes in hex. */
const hex = (byte: string, length: number) => `0x${byte.repeat(length)}`
const channelId = hex('c1', 32)
const channel = {
  id: channelId,
  network: 'eip155:1',
  storeId: 's1',
  config: {
    payer: hex('01', 20),
    payerAuthorizer: hex('02', 20),
    receiver: hex('03', 20),
    receiverAuthorizer: hex('04', 20),
    token: hex('05', 20),
    withdrawDelay: 3_600,
    salt: hex('06', 32),
  },
  charged: 0n,
  signed: 0n,
  signature: null,
  published: null,
  balance: 100n,
  totalClaimed: 0n,
  pendingWithdrawal: 0n,
  withdrawRequestedAtSeconds: 0,
  refundNonce: 0n,
}
const channelToken = {
  network: 'eip155:1',
  address: channel.config.token,
  symbol: 'USDC',
  decimals: 6,
  feeBps: 500,
  usdPerUnit: '1',
}
const everything = (i: number) => ({
  username: `name${i}`,
  bio: 'b',
  avatarUrl: '',
  payout: { base: `0x${i}` },
})

/**
 * Requests that each method makes at most: on PostgreSQL each is a round trip, and all of them hold up SQLite's writer. A method that needs
 * more of them asks for many rows at once instead.
 */
const limits: Readonly<Record<string, readonly [requests: number, args: (i: number) => readonly unknown[]]>> =
  {
    'stores.create': [
      6,
      (i) => [sampleStore(`t${i}`), { chain: 'base', address: `0x${i}` }, sampleKey(`k${i}`, `t${i}`)],
    ],
    'stores.update': [13, (i) => ['s1', everything(i), startMs + i, { maxRenamesADay: 1_000 }]],
    'apiKeys.add': [3, (i) => [sampleKey(`key${i}`, 's1'), 1_000]],
    'apiKeys.revoke': [1, (i) => ['s1', `key${i}`, startMs]],
    'apiKeys.touch': [1, (i) => [`key${i}`, startMs]],
    'browserSessions.add': [4, (i) => [session(i), startMs, 5]],
    'browserSessions.end': [1, (i) => ['s1', `session${i}`]],
    'browserSessions.touch': [1, (i) => [`session${i}`, startMs, startMs]],
    'signInNonces.add': [2, (i) => [nonce(i)]],
    'signInNonces.take': [1, (i) => [`n${i}`]],
    'signInNonces.use': [2, (i) => [`used${i}`, i]],
    'signInNonces.rememberSignup': [2, (i) => [`hash${i}`, 's1', i]],
    'gasBook.add': [4, (i) => ['eip155:1', { storeId: 's1', day: i, spent: 1n }]],
    'leases.take': [
      5,
      (i) => [
        `lease${i}`,
        1,
        { holder: `h${i}`, ended: [`h${i - 1}`], window: { fromMs: 0, toMs: Infinity } },
      ],
    ],
    'leases.renew': [2, (i) => [i, 1]],
    'leases.release': [1, (i) => [i]],
    'paymentSessions.create': [
      4,
      (i) => [sampleSession(`s${i}`, { idempotency: { key: `k${i % 19}`, requestHash: 'h' } }), 1_000],
    ],
    'paymentSessions.cancel': [1, (i) => [`s${i}`, startMs]],
    'paymentSessions.expire': [3, (i) => [startMs + i * SESSION_LIFETIME_MS, 1_000]],
    'paymentSessions.forget': [3, (i) => [startMs + i * SESSION_LIFETIME_MS, 1_000]],
    'links.create': [6, (i) => [{ ...sampleLink(`l${i}`, 's1'), slug: `slug${i}` }, 1_000]],
    'links.update': [7, (i) => ['l1', { slug: `other${i}`, title: 't' }, startMs + i]],
    'links.deactivate': [6, (i) => [`l${i}`, startMs]],
    'links.setSuspension': [5, (i) => ['l1', i % 2 === 0 ? { reason: 'r' } : null, startMs]],
    'healthChecks.note': [8, (i) => [Array.from({ length: 10 }, () => failed(`l${i}`))]],
    'healthChecks.putOff': [1, () => [['l1', 'l2'], startMs]],
    'healthChecks.addEvent': [8, (i) => [{ ...failed(`l${i}`), kind: 'probe' }]],
    'payments.adopt': [2, () => [1, ['claimed', 'settling'], 10, { fromMs: 0, toMs: Infinity }]],
    'payments.putOff': [3, () => [[1, 2, 3].map((row) => ({ row, state: 'pending', afterMs: 1, tries: 1 }))]],
    'retention.deleteResponses': [1, () => [[1, 2, 3], startMs]],
    'retention.deleteDelivered': [1, () => [[1, 2, 3], startMs]],
    'retention.deleteSigned': [4, () => [[1, 2, 3], startMs]],
    'reviews.add': [5, (i) => [review(i)]],
    'images.set': [8, (i) => ['s1', image(`i${i}`), `/avatar/i${i}.png`, startMs]],
    'webhooks.create': [3, (i) => [endpoint(`e${i}`, { storeId: `s${i % 3}` }), 100]],
    'webhooks.change': [3, (i) => [`e${i}`, { isEnabled: i % 2 === 1 }, startMs]],
    'webhooks.test': [1, (i) => [`e${i}`, `event${i}`, startMs]],
    'webhooks.fanOut': [
      4,
      (i) => [Array.from({ length: i + 1 }, (_, seq) => ({ seq, body: '{}' })), startMs],
    ],
    'webhooks.replay': [2, (i) => [`delivery${i}`, startMs]],
    'webhooks.note': [6, (i) => [{ ...gone, id: `delivery${i}`, taking: 0 }]],
    'webhooks.take': [8, (i) => [{ limit: 3 * i, nowMs: startMs, afterStore: '' }]],
    'webhooks.forget': [4, () => [startMs + 1, 1_000]],
    'channels.open': [4, () => [channel, 1]],
    'channels.take': [1, () => [channelId, 1]],
    'channels.update': [9, (i) => [channelId, { ...channel, totalClaimed: BigInt(i) }]],
    'channels.park': [1, () => [channelId, 1, 'r']],
    'channelBooks.book': [17, () => [[channelToken], 10]],
    'channelBooks.addEvents': [2, () => [[channelToken], 10]],
    'channels.noteRefund': [1, () => [channelId, 1, { nonce: 1n, amount: 1n }]],
    'channels.notePayouts': [
      2,
      (i) => [
        'eip155:1',
        [{ storeId: 's1', receiver: hex('03', 20), token: hex('05', 20), dueAtomic: BigInt(i) }],
      ],
    ],
    'channels.release': [1, () => [[channelId, hex('c2', 32)], 1, null]],
    'webhooks.remove': [2, (i) => [`e${i}`]],
  }

t.test('a call makes few requests, and not more of them when there are more rows', async (t) => {
  const database = new DatabaseSync(':memory:', { enableForeignKeyConstraints: true })
  t.teardown(() => database.close())
  await migrate(database)
  const respond = createAnswering(database)
  const countOf = (noun: string, method: string, args: readonly unknown[]) => {
    let count = 0
    runSteps(stepsOf({ noun, method, args }, startMs, undefined), (request) => {
      count++
      return respond(request, startMs)
    })
    return count
  }
  countOf('stores', 'create', [sampleStore('s1'), null, null])
  for (let i = 0; i < 20; i++) {
    countOf('webhooks', 'create', [endpoint(`endpoint${i}`, { storeId: 's1' }), 20])
    database.exec(`INSERT INTO webhook_events (seq, id, kind, store_id, at_ms, body)
        VALUES (${i + 1_000}, 'event${i}', 'test', 's1', 0, '{}');
      INSERT INTO webhook_deliveries (id, event_seq, endpoint_id, store_id, state, due_at_ms, created_at_ms)
        VALUES ('delivery${i}', ${i + 1_000}, 'endpoint${i}', 's1', 'waiting', 0, 0)`)
  }

  const methods = Object.entries(repositories).flatMap(([noun, methods]) =>
    Object.keys(methods).map((method) => `${noun}.${method}`),
  )
  t.strictSame(methods.toSorted(), Object.keys(limits).toSorted(), 'each method has a limit')
  for (const [name, [most, argsOf]] of Object.entries(limits)) {
    const [noun, method] = name.split('.') as [string, string]
    const counts = Array.from({ length: 20 }, (_, i) => countOf(noun, method, argsOf(i)))
    t.equal(Math.max(...counts), most, name)
  }
})
