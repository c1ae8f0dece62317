import type { Test } from 'tap'
import type { Ledger } from '../../core/ports/store/ledger.ts'
import type { ApiKeys, SignInNonces, Stores } from '../../core/ports/store/stores.ts'
import { bring } from '../helpers/rows.ts'
import { sampleKey, sampleStore, sell, startMs, type TestClock } from './samples.ts'

const DAY_MS = 24 * 60 * 60 * 1000

export interface StoresUnderTest {
  readonly stores: Stores
  readonly keys: ApiKeys
  readonly ledger: Ledger
}

/** What every implementation of the port Stores keeps. */
export function storesContract(t: Test, make: (t: Test) => Promise<StoresUnderTest>): void {
  t.test('a store comes with its wallet and its first key, all or nothing', async (t) => {
    const { stores, keys } = await make(t)
    const store = sampleStore('s1')
    const key = sampleKey('k1', 's1')
    const wallet = { storeId: 's1', chain: 'base', address: '0xabc' } as const
    await stores.create(store, wallet, key)
    t.strictSame(await stores.find('s1'), store)
    t.strictSame(await stores.byUsername('s1'), store)
    t.strictSame(await stores.byWallet('base', '0xabc'), store)
    t.equal(await stores.byWallet('solana', '0xabc'), undefined)
    t.strictSame(await keys.ofStore('s1'), [key])

    const second = sampleStore('s2')
    await t.rejects(stores.create(second, { ...wallet, storeId: 's2' }, sampleKey('k2', 's2')), {
      code: 'CONFLICT',
    })
    t.equal(await stores.find('s2'), undefined)
    t.strictSame(await keys.ofStore('s2'), [])
    const taken = stores.create(sampleStore('s3', { username: 's1' }), null, sampleKey('k3', 's3'))
    await t.rejects(taken, { code: 'USERNAME_TAKEN' })
    t.equal(await stores.find('s3'), undefined)
  })

  t.test('of many sign-ups with one wallet one gets the store', async (t) => {
    const { stores } = await make(t)
    const wallet = { chain: 'solana', address: 'So1' } as const
    const results = await Promise.allSettled(
      ['a', 'b', 'c', 'd'].map((id) =>
        stores.create(sampleStore(`s-${id}`), { ...wallet, storeId: `s-${id}` }, sampleKey(id, `s-${id}`)),
      ),
    )
    t.equal(results.filter((r) => r.status === 'fulfilled').length, 1)
    t.ok(await stores.byWallet('solana', 'So1'))
  })

  t.test('of the stores that are paid to a wallet it is known which have been for longer', async (t) => {
    const { stores } = await make(t)
    const [cold, other] = [{ base: '0xCold', solana: 'SoCold' }, { base: '0xOther' }]
    for (const id of ['s1', 's2', 's3']) await stores.create(sampleStore(id), null, sampleKey(`k-${id}`, id))
    const longer = async (id: string) => [
      await stores.paidLonger(id, 'base', '0xCold'),
      await stores.paidLonger(id, 'solana', 'SoCold'),
    ]
    const none: string[] = []
    t.strictSame(await longer('s3'), [none, none])
    await stores.update('s2', { payout: cold }, startMs + 1)
    await stores.update('s1', { payout: cold }, startMs + 2)
    await stores.update('s2', { payout: cold, bio: 'the same' }, startMs + 3)
    t.strictSame(await longer('s1'), [['s2'], ['s2']])
    t.strictSame(await longer('s2'), [none, none])
    t.strictSame(await longer('s3'), Array(2).fill(['s2', 's1']), 'all, for one that is not paid there')
    await stores.update('s2', { payout: other }, startMs + 4)
    await stores.update('s2', { payout: { base: cold.base } }, startMs + 5)
    t.strictSame(await longer('s2'), [['s1'], none], 'each chain by itself')
    await stores.create(sampleStore('s0', { payout: cold }), null, sampleKey('k0', 's0'))
    const all = [
      ['s0', 's1', 's2'],
      ['s0', 's2', 's1'],
    ]
    t.strictSame(await longer('s3'), all, 'made with it, before the others changed')
    const wallets = async (chain: 'base' | 'solana') => (await stores.payoutWallets(chain)).sort()
    const { base, solana } = sampleStore('s3').payout
    t.strictSame(await wallets('base'), [...new Set([base!, '0xCold'])].sort(), 'each wallet once')
    t.strictSame(await wallets('solana'), [...(solana === null ? [] : [solana]), 'SoCold'].sort())
  })

  t.test('an update changes what it names', async (t) => {
    const { stores } = await make(t)
    await stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
    const patch = { bio: '', developerModeEnabled: true, payout: { base: null, solana: 'So1' } }
    const after = { ...sampleStore('s1'), ...patch, payoutChangedAtMs: startMs + 5, updatedAtMs: startMs + 5 }
    t.strictSame(await stores.update('s1', patch, startMs + 5), after)
    t.strictSame(await stores.find('s1'), after)
    t.equal(await stores.update('nobody', { username: 'x' }, startMs), undefined)
    t.equal(await stores.byUsername('x'), undefined)
    t.match(await stores.update('s1', { bio: 'later' }, startMs + 9), { payoutChangedAtMs: startMs + 5 })
  })

  t.test('a change that replaces other wallets than it names changes nothing at all', async (t) => {
    const { stores } = await make(t)
    const store = sampleStore('s1', { username: 'ann', payout: { base: '0xa', solana: null } })
    await stores.create(store, null, sampleKey('k1', 's1'))
    const move = (payoutWas: object, more: object = {}) =>
      stores.update('s1', { payout: { base: '0xb' }, ...more }, startMs + 1, { payoutWas, maxRenamesADay: 1 })
    for (const was of [{ base: '0xc' }, { base: null }, { base: '0xa', solana: 'So1' }, { solana: 'So1' }]) {
      t.equal(await move(was, { username: 'anna', bio: 'no' }), undefined, JSON.stringify(was))
    }
    t.strictSame(await stores.find('s1'), store)
    t.equal(await stores.redirectOf('ann', startMs + 2), undefined)
    const moved = await move({ base: '0xa', solana: null }, { username: 'anna' })
    t.match(moved, {
      username: 'anna',
      payout: { base: '0xb', solana: null },
      payoutChangedAtMs: startMs + 1,
    })
    t.equal(await stores.redirectOf('ann', startMs + 2), 'anna', 'the tries before were no renames')
  })

  t.test('of changes at once that replace the same wallet, one is made', async (t) => {
    const { stores } = await make(t)
    const payout = { base: '0xa', solana: null }
    await stores.create(sampleStore('s1', { payout }), null, sampleKey('k1', 's1'))
    const results = await Promise.all(
      ['0xb', '0xc', '0xd'].map((base) =>
        stores.update('s1', { payout: { base } }, startMs, { payoutWas: { base: '0xa' } }),
      ),
    )
    const made = results.filter((store) => store !== undefined)
    t.equal(made.length, 1)
    t.strictSame(await stores.find('s1'), made[0])
  })

  t.test('the wallets of a store are those that sign in to it', async (t) => {
    const { stores } = await make(t)
    const wallet = { storeId: 's1', chain: 'base', address: '0xabc' } as const
    await stores.create(sampleStore('s1'), wallet, sampleKey('k1', 's1'))
    await stores.create(sampleStore('s2'), null, sampleKey('k2', 's2'))
    t.strictSame(await stores.walletsOf('s1'), [wallet])
    t.strictSame(await stores.walletsOf('s2'), [])
  })

  t.test('a former username leads to its store for 30 days, and no other store may take it', async (t) => {
    const { stores } = await make(t)
    await stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
    await stores.create(sampleStore('s2', { username: 'ben' }), null, sampleKey('k2', 's2'))
    await t.rejects(stores.update('s1', { username: 'ben' }, startMs), { code: 'USERNAME_TAKEN' })
    t.equal(await stores.redirectOf('ann', startMs), undefined, 'a refused change leaves nothing behind')

    t.match(await stores.update('s1', { username: 'anna' }, startMs), { username: 'anna' })
    t.equal(await stores.byUsername('ann'), undefined)
    t.equal(await stores.redirectOf('ann', startMs + 30 * DAY_MS - 1), 'anna')
    t.equal(await stores.redirectOf('ann', startMs + 30 * DAY_MS), undefined)
    await t.rejects(stores.update('s2', { username: 'ann' }, startMs + DAY_MS), { code: 'USERNAME_TAKEN' })
    const newcomer = sampleStore('s3', { username: 'ann', updatedAtMs: startMs + DAY_MS })
    await t.rejects(stores.create(newcomer, null, sampleKey('k3', 's3')), { code: 'USERNAME_TAKEN' })

    t.match(
      await stores.update('s1', { username: 'ann' }, startMs + 2 * DAY_MS),
      { username: 'ann' },
      'its own',
    )
    t.equal(await stores.redirectOf('ann', startMs + 2 * DAY_MS), undefined)
    t.equal(await stores.redirectOf('anna', startMs + 2 * DAY_MS), 'ann')
    t.match(await stores.update('s2', { username: 'anna' }, startMs + 32 * DAY_MS), { username: 'anna' })
    t.equal(await stores.redirectOf('anna', startMs + 32 * DAY_MS), undefined)
  })
}

/** What every implementation of the port Stores keeps of renames. */
export function renamesContract(t: Test, make: (t: Test) => Promise<StoresUnderTest>): void {
  t.test('a store keeps one former name from everybody else; older ones are free', async (t) => {
    const { stores } = await make(t)
    await stores.create(sampleStore('s1', { username: 'name_0' }), null, sampleKey('k1', 's1'))
    await stores.create(sampleStore('s2', { username: 'other' }), null, sampleKey('k2', 's2'))
    for (let i = 1; i <= 60; i++) await stores.update('s1', { username: `name_${i}` }, startMs + i)
    const now = startMs + 100
    const led = await Promise.all(Array.from({ length: 61 }, (_, i) => stores.redirectOf(`name_${i}`, now)))
    t.strictSame(led, [...Array(59).fill(undefined), 'name_60', undefined])
    t.match(await stores.update('s2', { username: 'name_58' }, now), { username: 'name_58' })
    await t.rejects(stores.update('s2', { username: 'name_59' }, now), { code: 'USERNAME_TAKEN' })
    t.equal(await stores.redirectOf('other', now), 'name_58', 'a refused change leaves the former name')

    await stores.update('s1', { username: 'name_60', bio: 'same name' }, now)
    t.equal(await stores.redirectOf('name_59', now), 'name_60', 'the same name again is no rename')
  })

  t.test(
    'a store that has sold keeps each former name for 30 days, however often it is renamed',
    async (t) => {
      const { stores, ledger } = await make(t)
      await stores.create(sampleStore('s1', { username: 'name_0' }), null, sampleKey('k1', 's1'))
      await stores.create(sampleStore('s2', { username: 'other' }), null, sampleKey('k2', 's2'))
      await sell({ ledger }, 'first', '0xfirst', { storeId: 's1' })
      for (let i = 1; i <= 5; i++) await stores.update('s1', { username: `name_${i}` }, startMs + i * DAY_MS)
      const now = startMs + 30 * DAY_MS
      for (let i = 0; i < 5; i++) {
        t.equal(await stores.redirectOf(`name_${i}`, now), 'name_5')
        await t.rejects(stores.update('s2', { username: `name_${i}` }, now), { code: 'USERNAME_TAKEN' })
        const newcomer = sampleStore(`n${i}`, { username: `name_${i}`, updatedAtMs: now })
        await t.rejects(stores.create(newcomer, null, null), { code: 'USERNAME_TAKEN' })
      }
      await stores.update('s1', { username: 'name_2' }, now)
      t.equal(await stores.redirectOf('name_2', now), undefined, 'its own name again leads nowhere else')
      t.equal(await stores.redirectOf('name_5', now), 'name_2')
      t.match(await stores.update('s2', { username: 'name_0' }, startMs + 31 * DAY_MS), {
        username: 'name_0',
      })
      await t.rejects(stores.update('s2', { username: 'name_1' }, startMs + 31 * DAY_MS), {
        code: 'USERNAME_TAKEN',
      })
    },
  )

  for (const state of ['claimed', 'settling', 'pending'] as const)
    t.test(`a store keeps the names that it had while a first payment is ${state}`, async (t) => {
      const { stores, ledger } = await make(t)
      await stores.create(sampleStore('s1', { username: 'name_0' }), null, sampleKey('k1', 's1'))
      t.equal(await stores.hasSold('s1'), false)
      await bring(ledger, { state, storeId: 's1', linkId: 'l1' })
      t.equal(await stores.hasSold('s1'), true)
      t.equal(await stores.hasSold('s2'), false)
      for (let i = 1; i <= 2; i++) await stores.update('s1', { username: `name_${i}` }, startMs + i)
      t.equal(await stores.redirectOf('name_0', startMs + 2), 'name_2')
    })

  t.test('renames of 24 hours are counted with the rename itself, however many come at once', async (t) => {
    const { stores } = await make(t)
    await stores.create(sampleStore('s1', { username: 'first' }), null, sampleKey('k1', 's1'))
    await stores.create(sampleStore('s2', { username: 'taken' }), null, sampleKey('k2', 's2'))
    const rename = (username: string, afterMs: number) =>
      stores.update('s1', { username }, startMs + afterMs, { maxRenamesADay: 2 })
    await t.rejects(rename('taken', 0), { code: 'USERNAME_TAKEN' })
    t.match(await rename('first', 0), { username: 'first' }, 'neither a refused nor the same name counts')
    const results = await Promise.allSettled(
      ['one', 'two', 'three', 'four'].map((name) => rename(name, 1_000)),
    )
    const made = results.flatMap((r) => (r.status === 'fulfilled' ? [r.value!.username] : []))
    t.equal(made.length, 2)
    await t.rejects(rename('five', 2_000), {
      code: 'RATE_LIMIT_EXCEEDED',
      retryAfterSeconds: 24 * 60 * 60 - 1,
      message: new RegExp(new Date(startMs + 1_000 + DAY_MS).toISOString()),
    })
    const after = await stores.update('s1', { bio: 'x' }, startMs + 2_000, { maxRenamesADay: 2 })
    t.equal(after?.bio, 'x')
    t.ok(made.includes(after!.username), 'whichever of the two came last')
    t.match(await rename('five', 1_000 + DAY_MS), { username: 'five' })
    t.match(
      await stores.update('s2', { username: 'six' }, startMs + 2_000, { maxRenamesADay: 2 }),
      { username: 'six' },
      'each store its own',
    )
  })
}

/** What every implementation of the port ApiKeys keeps. */
export function apiKeysContract(t: Test, make: (t: Test) => Promise<StoresUnderTest>): void {
  const oneStore = async (t: Test) => {
    const under = await make(t)
    await under.stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
    return under
  }

  t.test('a store never has more active keys than it may, however many come at once', async (t) => {
    const { keys } = await oneStore(t)
    const results = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) => keys.add(sampleKey(`n${i}`, 's1'), 5)),
    )
    t.equal(results.filter((r) => r.status === 'fulfilled').length, 4)
    t.ok(results.every((r) => r.status === 'fulfilled' || r.reason.code === 'LIMIT_REACHED'))
    t.equal((await keys.ofStore('s1')).filter((k) => k.isActive).length, 5)
    await keys.revoke('s1', 'k1', startMs)
    await keys.add(sampleKey('again', 's1'), 5)
    await t.rejects(keys.add(sampleKey('sixth', 's1'), 5), { code: 'LIMIT_REACHED' })
  })

  t.test('a key is found by its hash, revoked ones too, with the first time they were revoked', async (t) => {
    const { keys } = await oneStore(t)
    const key = sampleKey('k1', 's1')
    t.strictSame(await keys.byHash(key.keyHash), key)
    t.equal(await keys.byHash('unknown'), undefined)
    const revoked = { ...key, isActive: false, revokedAtMs: startMs + 1 }
    t.strictSame(await keys.revoke('s1', 'k1', startMs + 1), revoked)
    t.strictSame(await keys.revoke('s1', 'k1', startMs + 9), revoked)
    t.strictSame(await keys.byHash(key.keyHash), revoked)
    t.equal(await keys.revoke('s2', 'k1', startMs), undefined, "another store's")
    t.equal(await keys.revoke('s1', 'nobody', startMs), undefined)
  })

  t.test('the time of use is kept to the minute', async (t) => {
    const { keys } = await oneStore(t)
    const lastUsed = async () => (await keys.ofStore('s1'))[0]!.lastUsedAtMs
    await keys.touch('k1', startMs)
    t.equal(await lastUsed(), startMs)
    await keys.touch('k1', startMs + 59_999)
    t.equal(await lastUsed(), startMs)
    await keys.touch('k1', startMs + 60_000)
    t.equal(await lastUsed(), startMs + 60_000)
  })
}

/** What every implementation of the port SignInNonces keeps. */
export function signInNoncesContract(
  t: Test,
  make: (t: Test) => Promise<StoresUnderTest & { nonces: SignInNonces; clock: TestClock }>,
): void {
  const nonce = {
    ...{ nonce: 'n1', chain: 'base' as const, address: '0xabc', message: 'Sign in\nNonce: n1' },
    expiresAtMs: startMs + 300_000,
  }

  t.test('a nonce is used once, however many ask at once', async (t) => {
    const { nonces } = await make(t)
    await nonces.add(nonce)
    const taken = await Promise.all(Array.from({ length: 10 }, () => nonces.take('n1')))
    t.strictSame(
      taken.filter((n) => n !== undefined),
      [nonce],
    )
    t.equal(await nonces.take('n1'), undefined)
  })

  t.test('expired nonces go when the next one comes', async (t) => {
    const { nonces, clock } = await make(t)
    await nonces.add(nonce)
    clock.nowMs += 300_001
    await nonces.add({ ...nonce, nonce: 'n2', expiresAtMs: clock.nowMs + 300_000 })
    t.equal(await nonces.take('n1'), undefined)
    t.match(await nonces.take('n2'), { nonce: 'n2' })
  })

  t.test(
    'a finished sign-up is remembered as long as its nonce would have lived; the first one stands',
    async (t) => {
      const { nonces, stores, clock } = await make(t)
      for (const id of ['s1', 's2']) await stores.create(sampleStore(id), null, sampleKey(id, id))
      await nonces.rememberSignup('hash', 's1', startMs + 300_000)
      await nonces.rememberSignup('hash', 's2', startMs + 300_000)
      t.equal(await nonces.signupOf('hash', startMs + 299_999), 's1')
      t.equal(await nonces.signupOf('hash', startMs + 300_000), undefined)
      t.equal(await nonces.signupOf('other', startMs), undefined)
      clock.nowMs += 300_001
      await nonces.rememberSignup('hash', 's2', clock.nowMs + 300_000)
      t.equal(await nonces.signupOf('hash', clock.nowMs), 's2')
    },
  )
}
