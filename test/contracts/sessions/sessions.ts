import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { SESSION_LIFETIME_MS, type Session, statusOf } from '../../../core/domain/session.ts'
import type { Links } from '../../../core/ports/store/links.ts'
import {
  IDEMPOTENCY_RETENTION_MS,
  type NewSession,
  type Sessions,
  UNPAID_COUNTED_MS,
  UNPAID_PER_OPEN,
  UNPAID_RETENTION_MS,
} from '../../../core/ports/store/sessions.ts'
import type { Stores } from '../../../core/ports/store/stores.ts'
import { sampleKey, sampleLink, sampleStore, startMs, type TestClock } from '../samples.ts'

export interface SessionsUnderTest {
  readonly sessions: Sessions
  readonly links: Links
  readonly stores: Stores
  readonly clock: TestClock
}

export const sampleSession = (id: string, more: Partial<NewSession> = {}): NewSession => ({
  ...{ id, storeId: 's1', linkId: null, secretHash: 'ab'.repeat(32), price: '49.99' },
  payout: { base: '0x00000000000000000000000000000000000000A1', solana: null },
  asks: null,
  ...{ title: 'A chair, 世界 😀', description: 'Four legs\nand a back', successUrl: 'https://shop.test/ok' },
  ...{ cancelUrl: null, allowedOrigin: 'https://shop.test', clientReferenceId: null, idempotency: null },
  metadata: { order: 7, gift: true, note: null, text: '"quoted"' },
  createdAtMs: startMs,
  expiresAtMs: startMs + SESSION_LIFETIME_MS,
  ...more,
})

/** As a session stands that was just made. */
export const asMade = ({ idempotency: _, ...session }: NewSession): Session => ({
  ...session,
  ...{ state: 'open', endedAtMs: null, paymentRow: null, failures: 0, paid: null },
})

/** What every implementation of the port Sessions keeps. */
export function sessionsContract(t: Test, make: (t: Test) => Promise<SessionsUnderTest>): void {
  const all = { limit: 10, nowMs: startMs }
  const ids = async (sessions: Sessions, filter: object) =>
    (await sessions.list('s1', { ...all, ...filter })).sessions.map(({ id }) => id)

  t.test('a session comes back as it was given, open', async (t) => {
    const { sessions } = await make(t)
    const given = sampleSession('a')
    t.strictSame(await sessions.create(given), asMade(given))
    t.strictSame(await sessions.find('a'), asMade(given))
    t.equal(await sessions.find('b'), undefined)
  })

  t.test('what it asks for of one token comes back to the last unit', async (t) => {
    const { sessions } = await make(t)
    const asks = {
      ...({ network: 'eip155:84532', asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e' } as const),
      ...{ symbol: 'T', decimals: 24, amountAtomic: 2n ** 200n + 1n },
    }
    const given = sampleSession('a', { asks })
    t.strictSame(await sessions.create(given), asMade(given))
    t.strictSame(await sessions.find('a'), asMade(given))
  })

  t.test(
    'one key of a store makes one session, however many ask at once; another request is refused',
    async (t) => {
      const { sessions } = await make(t)
      const idempotency = { key: 'k', requestHash: 'h' }
      const made = await Promise.all(
        ['a', 'b', 'c'].map((id) => sessions.create(sampleSession(id, { idempotency }))),
      )
      t.equal(new Set(made.map(({ id }) => id)).size, 1)
      t.equal((await ids(sessions, {})).length, 1)
      await t.rejects(
        sessions.create(sampleSession('d', { idempotency: { key: 'k', requestHash: 'other' } })),
        { code: 'IDEMPOTENCY_KEY_REUSED' },
      )
      t.equal((await sessions.madeBefore('s1', idempotency))?.id, made[0]!.id)
      t.equal(await sessions.madeBefore('s1', { key: 'another', requestHash: 'h' }), undefined)
      t.equal(await sessions.madeBefore('s2', idempotency), undefined)
      await t.rejects(sessions.madeBefore('s1', { key: 'k', requestHash: 'other' }), {
        code: 'IDEMPOTENCY_KEY_REUSED',
      })
      const elsewhere = await sessions.create(sampleSession('e', { storeId: 's2', idempotency }))
      t.equal(elsewhere.id, 'e', 'the key of another store is another key')
      await sessions.expire(startMs + IDEMPOTENCY_RETENTION_MS + 1, 10)
      const later = await sessions.create(sampleSession('f', { idempotency }))
      t.equal(later.id, 'f', 'and is free after a day')
    },
  )

  t.test('a store has so many open sessions at most, however many are made at once', async (t) => {
    const { sessions } = await make(t)
    const add = (id: string, more: Partial<NewSession> = {}) => sessions.create(sampleSession(id, more), 3)
    const idempotency = { key: 'k', requestHash: 'h' }
    await add('first', { idempotency })
    const made = await Promise.allSettled(['a', 'b', 'c', 'd'].map((id) => add(id)))
    t.strictSame(made.map(({ status }) => status).toSorted(), [
      ...['fulfilled', 'fulfilled'],
      ...['rejected', 'rejected'],
    ])
    await t.rejects(add('e'), { code: 'LIMIT_REACHED', message: /3 open payment sessions/ })
    t.equal((await ids(sessions, {})).length, 3)
    t.equal((await add('f', { idempotency })).id, 'first', 'what was made before is told again')
    t.equal((await add('other', { storeId: 's2' })).id, 'other', 'another store has its own')
    await sessions.cancel('first', startMs)
    t.equal((await add('g')).id, 'g', 'one that has ended makes room')
    const laterMs = startMs + SESSION_LIFETIME_MS
    const later = { createdAtMs: laterMs, expiresAtMs: laterMs + SESSION_LIFETIME_MS }
    t.equal((await add('h', later)).id, 'h', 'also before the expiry is written')
  })

  t.test('who cancels what he makes, or lets it expire, makes so much a day and no more', async (t) => {
    const { sessions } = await make(t)
    const add = (id: string, more: Partial<NewSession> = {}) => sessions.create(sampleSession(id, more), 2)
    const at = (ms: number) => ({
      createdAtMs: startMs + ms,
      expiresAtMs: startMs + ms + SESSION_LIFETIME_MS,
    })
    for (let i = 0; i < 2 * UNPAID_PER_OPEN - 1; i++) {
      await add(`canceled-${i}`)
      await sessions.cancel(`canceled-${i}`, startMs)
    }
    await add('expired')
    await sessions.expire(startMs + SESSION_LIFETIME_MS, 10)
    await t.rejects(add('more', at(SESSION_LIFETIME_MS)), {
      code: 'LIMIT_REACHED',
      message: /10 of the last/,
    })
    t.equal((await add('other', { storeId: 's2' })).id, 'other', 'another store has its own')
    t.equal((await add('next', at(UNPAID_COUNTED_MS))).id, 'next', 'and has room again a day later')
  })

  t.test('what ended unpaid is forgotten after a while, a few at a time, and nothing else', async (t) => {
    const { sessions } = await make(t)
    for (const id of ['expired-1', 'expired-2', 'canceled', 'later']) await sessions.create(sampleSession(id))
    await sessions.create(
      sampleSession('open', { createdAtMs: startMs + 1, expiresAtMs: startMs + 2 * UNPAID_RETENTION_MS }),
    )
    await sessions.cancel('canceled', startMs + 1)
    await sessions.cancel('later', startMs + SESSION_LIFETIME_MS - 1)
    const overMs = startMs + SESSION_LIFETIME_MS
    t.equal(await sessions.forget(startMs + 2 * UNPAID_RETENTION_MS, 1), 1, 'the one that ended first')
    t.equal(await sessions.find('canceled'), undefined)
    await sessions.expire(overMs, 10)
    t.equal(await sessions.forget(overMs + UNPAID_RETENTION_MS - 2, 10), 0)
    t.equal(await sessions.forget(overMs + UNPAID_RETENTION_MS - 1, 10), 1, 'of those that ended so long ago')
    t.strictSame(await ids(sessions, {}), ['open', 'expired-2', 'expired-1'])
    t.equal(await sessions.forget(overMs + UNPAID_RETENTION_MS, 1), 1)
    t.equal(await sessions.forget(overMs + UNPAID_RETENTION_MS, 1), 1)
    t.equal(await sessions.forget(overMs + UNPAID_RETENTION_MS, 1), 0)
    t.strictSame(await ids(sessions, {}), ['open'])
  })

  t.test('a list is of one store, newest first, in pages, by status and reference', async (t) => {
    const { sessions } = await make(t)
    for (let i = 0; i < 5; i++)
      await sessions.create(
        sampleSession(`p${i}`, {
          createdAtMs: startMs + i,
          expiresAtMs: startMs + 1_000 * (i + 1),
          clientReferenceId: i % 2 === 0 ? 'even' : 'odd',
        }),
      )
    await sessions.create(sampleSession('other', { storeId: 's2' }))
    t.strictSame(await ids(sessions, {}), ['p4', 'p3', 'p2', 'p1', 'p0'])
    t.strictSame(await ids(sessions, { clientReferenceId: 'odd' }), ['p3', 'p1'])
    const first = await sessions.list('s1', { ...all, limit: 2 })
    const second = await sessions.list('s1', { ...all, limit: 3, cursor: first.nextCursor! })
    t.strictSame(
      [first, second].flatMap((page) => page.sessions.map(({ id }) => id)),
      ['p4', 'p3', 'p2', 'p1', 'p0'],
    )
    t.equal(second.nextCursor, null)

    await sessions.cancel('p4', startMs)
    const nowMs = startMs + 2_500
    t.strictSame(await ids(sessions, { status: 'open', nowMs }), ['p3', 'p2'])
    t.strictSame(
      await ids(sessions, { status: 'expired', nowMs }),
      ['p1', 'p0'],
      'before the expiry is written',
    )
    t.equal(await sessions.expire(nowMs, 1), 1)
    t.strictSame(
      await ids(sessions, { status: 'expired', nowMs }),
      ['p1', 'p0'],
      'and while some are written',
    )
    t.equal(await sessions.expire(nowMs, 10), 1)
    t.strictSame(await ids(sessions, { status: 'expired', nowMs }), ['p1', 'p0'])
    t.strictSame(await ids(sessions, { status: 'expired', nowMs, limit: 1 }), ['p1'])
    t.strictSame(await ids(sessions, { status: 'canceled', nowMs }), ['p4'])
    t.strictSame(await ids(sessions, { status: 'open', clientReferenceId: 'odd', nowMs }), ['p3'])
  })

  t.test('what has ended stays as it ended, also when the clock is put back', async (t) => {
    const { sessions } = await make(t)
    for (const id of ['canceled', 'expired', 'late']) await sessions.create(sampleSession(id))
    const overMs = startMs + SESSION_LIFETIME_MS
    t.match(await sessions.cancel('canceled', startMs + 5), { state: 'canceled', endedAtMs: startMs + 5 })
    t.match(await sessions.cancel('canceled', startMs + 9), { endedAtMs: startMs + 5 })
    t.match(
      await sessions.cancel('late', overMs),
      { state: 'open' },
      'it has expired, and is not canceled any more',
    )
    t.equal(await sessions.expire(overMs - 1, 10), 0)
    t.equal(await sessions.expire(overMs, 10), 2)
    t.equal(await sessions.expire(overMs, 10), 0)
    t.match(await sessions.cancel('expired', startMs), { state: 'expired', endedAtMs: overMs })
    t.equal(statusOf((await sessions.find('expired'))!, startMs), 'expired')
    t.match(await sessions.find('canceled'), { state: 'canceled' })
    t.equal(await sessions.cancel('nothing', startMs), undefined)
  })

  t.test('the deletion of a link cancels its open sessions, and no other', async (t) => {
    const { sessions, links, stores } = await make(t)
    await stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
    const [l1, l2] = [randomUUID(), randomUUID()]
    await links.create(sampleLink(l1, 's1', { slug: 'one' }))
    await links.create(sampleLink(l2, 's1', { slug: 'two' }))
    await sessions.create(sampleSession('of-1', { linkId: l1 }))
    await sessions.create(sampleSession('of-2', { linkId: l2 }))
    await sessions.create(sampleSession('over', { linkId: l1, expiresAtMs: startMs }))
    await sessions.create(sampleSession('ad-hoc'))
    await links.update(l1, { title: 'Another' }, startMs)
    t.match(await sessions.find('of-1'), { state: 'open' })
    await links.deactivate(l1, startMs + 1)
    t.match(await sessions.find('of-1'), { state: 'canceled', endedAtMs: startMs + 1 })
    for (const id of ['of-2', 'over', 'ad-hoc']) t.match(await sessions.find(id), { state: 'open' })
  })
}
