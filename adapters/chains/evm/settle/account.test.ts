import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import t from 'tap'
import { parseTransaction } from 'viem/utils'
import type { OpenAttempt } from '../../../../core/domain/payment.ts'
import { silentLog as log } from '../../../../core/ports/log.ts'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { Hex } from '../rpc/nodes.ts'
import { SettlingAccount, type SettlingAccountOptions, type Store } from './account.ts'

const fees = { maxFeePerGas: 2n, maxPriorityFeePerGas: 1n }

/** A node with one account's transactions: those mined up to a nonce, and a pool that keeps the first transaction of each nonce. */
function nodeOf(firstFree: number) {
  const pool = new Map<number, string>()
  let mined = firstFree
  const take = (bytes: string): string => {
    const { nonce = 0 } = parseTransaction(bytes as Hex)
    if (nonce < mined) throw new RpcRefused(-32_000, 'nonce too low')
    const waiting = pool.get(nonce)
    if (waiting === bytes) throw new RpcRefused(-32_000, 'already known')
    if (waiting !== undefined) throw new RpcRefused(-32_000, 'replacement transaction underpriced')
    pool.set(nonce, bytes)
    return '0x'
  }
  const rpc = {
    async call(method: string, ...[first, block]: unknown[]) {
      if (method === 'eth_sendRawTransaction') return take(String(first))
      let next = mined
      while (block === 'pending' && pool.has(next)) next++
      return `0x${next.toString(16)}`
    },
  } as Rpc
  return {
    rpc,
    pool,
    /** All transactions below the first gap. */
    mine() {
      while (pool.delete(mined)) mined++
    },
    /** Frees the nonces from this one on, because the pool lost their transactions. */
    freeFrom: (nonce: number) => void (mined = nonce),
  }
}

/** An account at such a node, which goes with the test. */
function accountOn(t: Test, rpc: Rpc, changes: Partial<SettlingAccountOptions> = {}) {
  const account = new SettlingAccount({
    network: 'eip155:84532',
    privateKey: `0x${'11'.repeat(32)}`,
    rpc,
    log,
    maxGas: 300_000,
    storeTimeoutMs: 1_000,
    strandedMs: 900_000,
    sharedKeyMs: 0,
    maxFeePerGasWei: 2n,
    currentFees: async () => fees,
    ...changes,
  })
  t.teardown(() => account.close())
  return account
}

t.test(
  'a number that a reorganisation has freed, and nobody knows, is filled when what waits behind it is over',
  async (t) => {
    // A former process has used 5.
    const node = nodeOf(6)
    const account = accountOn(t, node.rpc, { strandedMs: 0 })
    const call = { to: `0x${'22'.repeat(20)}`, data: '0x01' }
    const { attempt } = await account.sign(call, 300_000, fees, [async () => true])
    await account.repair()
    t.equal(node.pool.get(6), attempt!.bytes)

    node.freeFrom(5)
    account.abandon(attempt!)
    // The first check finds the missing nonce, and the second finds that it is still missing.
    for (let look = 0; look < 2; look++) await account.repair()
    t.equal(node.pool.get(6), attempt!.bytes, 'nothing can take the place of what waits')
    const filler = parseTransaction(node.pool.get(5) as Hex)
    t.match(filler, { nonce: 5, to: account.address.toLowerCase(), gas: 21_000n })
    node.mine()
    await account.repair()
    t.match([node.pool.size, account.inFlight], [0, 0], 'and the key is free')
  },
)

t.test('a number below one that was mined waits for no block, whoever used it', async (t) => {
  const counts: Record<string, string> = { latest: '0x5', pending: '0x6' }
  const account = new SettlingAccount({
    network: 'eip155:84532',
    privateKey: `0x${'11'.repeat(32)}`,
    maxGas: 100_000,
    log,
    rpc: { call: async (_method: string, _address: string, block: string) => counts[block] } as never,
    storeTimeoutMs: 1_000,
    strandedMs: 900_000,
    maxFeePerGasWei: 1n,
    sharedKeyMs: 0,
    currentFees: async () => undefined,
  })
  t.teardown(() => account.close())
  const attemptOf = (sequence: string) => ({
    settler: account.id,
    bytes: '0x02',
    transaction: '0x',
    sequence,
  })
  // Its payment stays open in the store until it expires, because another process that had the key used the nonce for another
  // transaction.
  await account.adopt([attemptOf('5')])
  await sleep(5)
  t.ok(account.oldestMs > 0)
  account.mined(attemptOf('6'))
  t.equal(account.oldestMs, 0)
  t.equal(account.inFlight, 1, 'the payment is open still')
})

t.test(
  'what a former process has signed, and who looks after its payments says is never sent, is filled',
  async (t) => {
    for (const isKnownFirst of [true, false]) {
      const node = nodeOf(5)
      const account = accountOn(t, node.rpc)
      const open = { settler: account.id, bytes: '', transaction: '0x', sequence: '5' }
      const unsent = { ...open, isUnsent: true as const }
      await account.adopt([isKnownFirst ? unsent : open])
      const call = { to: `0x${'22'.repeat(20)}`, data: '0x01' }
      const { attempt } = await account.sign(call, 300_000, fees, [async () => true])
      t.equal(attempt!.sequence, '6')
      let result: readonly (typeof open)[] = [open, { ...attempt!, bytes: '' } as typeof open]
      for (let look = 0; look < 3; look++) await account.followUp(async () => result)
      t.equal(node.pool.has(5), isKnownFirst, 'while its bytes may be sent it is theirs')
      // One of the payments that share the transaction suffices.
      result = [...result, unsent]
      for (let look = 0; look < 3; look++) await account.followUp(async () => result)
      t.match(parseTransaction(node.pool.get(5) as Hex), { nonce: 5, gas: 21_000n, value: undefined })
      await account.repair()
      t.equal(node.pool.get(6), attempt!.bytes, 'and what is behind it is as it was')
      node.mine()
      await account.repair()
      t.equal(node.pool.size, 0)
    }
  },
)

t.test(
  'a number whose payment is stored, although nobody said so, is left to it until it is over',
  async (t) => {
    const node = nodeOf(5)
    const account = accountOn(t, node.rpc, { storeTimeoutMs: 20 })
    let stored: OpenAttempt[] = []
    await account.adopt([])
    await account.followUp(async () => stored)
    const call = { to: `0x${'22'.repeat(20)}`, data: '0x01' }
    const silent =
      (isStored: boolean): Store =>
      (attempt) => {
        if (isStored) stored.push({ ...attempt, bytes: '' })
        return new Promise(() => undefined)
      }
    for (const isStored of [true, false])
      t.match(await account.sign(call, 300_000, fees, [silent(isStored)]), {
        attempt: undefined,
        isStored: [false],
      })
    await sleep(50)
    t.strictSame([...node.pool.keys()], [6], 'the one that is not stored is filled')
    t.equal(account.inFlight, 2)
    // Some of several payments have stored it and others have not.
    await account.sign(call, 300_000, fees, [silent(true), async () => true])
    await sleep(50)
    t.strictSame([...node.pool.keys()], [6, 7], 'what several share is filled whoever has it')

    let isUnavailable = true
    const open = async () => {
      if (isUnavailable) throw new Error('away')
      return stored
    }
    await account.followUp(open).catch(() => undefined)
    for (const isStored of [true, false]) await account.sign(call, 300_000, fees, [silent(isStored)])
    await account.followUp(open).catch(() => undefined)
    await sleep(50)
    t.strictSame([...node.pool.keys()], [6, 7], 'a store that is away says later which of them it has')
    isUnavailable = false
    for (let look = 0; look < 3; look++) await account.followUp(open)
    t.strictSame([...node.pool.keys()], [6, 7, 9])

    stored = []
    for (let look = 0; look < 3; look++) await account.followUp(open)
    t.strictSame([...node.pool.keys()].sort(), [5, 6, 7, 8, 9], 'and so is that of a payment that is over')
  },
)

t.test(
  'a number that another process has a payment for by now is not used up by who had given it up before',
  async (t) => {
    const node = nodeOf(5)
    const account = accountOn(t, node.rpc)
    let hasKey = true
    await account.adopt([], () => hasKey)
    const call = { to: `0x${'22'.repeat(20)}`, data: '0x01' }
    const { attempt } = await account.sign(call, 300_000, fees, [async () => true])
    // The node never had the transaction, another process has the key, and the payment has ended, so the next payment gets the
    // nonce.
    hasKey = false
    account.abandon(attempt!)
    await account.repair()
    hasKey = true
    const open = { ...attempt!, bytes: '', transaction: '0xother' }
    await account.adopt([open], () => hasKey)
    await account.repair()
    t.strictSame([...node.pool.keys()], [], 'it is the recovery’s to send')
    await account.adopt([{ ...open, isUnsent: true }], () => hasKey)
    t.strictSame([...node.pool.keys()], [5])
  },
)

t.test(
  'a node that takes no number before the one below it gets all of them, in whichever order it hears of them',
  async (t) => {
    let next = 0
    const rpc = {
      async call(method: string, bytes: unknown) {
        if (method !== 'eth_sendRawTransaction') return `0x${next.toString(16)}`
        const { nonce = 0 } = parseTransaction(bytes as Hex)
        // What is sent last is there first.
        await sleep(40 - 2 * (nonce % 16))
        if (nonce > next) throw new RpcRefused(-32_000, 'nonce too high')
        next = Math.max(next, nonce + 1)
        return '0x'
      },
    } as Rpc
    const account = accountOn(t, rpc)
    const unsent = { settler: account.id, bytes: '', transaction: '0x', isUnsent: true } as const
    await account.adopt(Array.from({ length: 40 }, (_, n) => ({ ...unsent, sequence: String(n) })))
    t.equal(next, 40)
  },
)

t.test(
  'a number that waits to be filled is nobody else’s, also where the node takes those around it back',
  async (t) => {
    const node = nodeOf(5)
    let more = 0
    const rpc = {
      call: async (...args: Parameters<Rpc['call']>) =>
        `0x${(Number(await node.rpc.call(...args)) + more).toString(16)}`,
    } as Rpc
    const account = accountOn(t, rpc, { sharedKeyMs: 100 })
    await account.adopt([])
    await account.checkSharing()
    // Time for the next look.
    await sleep(2_100)
    more = 4
    await account.checkSharing()
    t.equal(account.isShared, true)
    account.abandon({ settler: account.id, bytes: '', transaction: '0x', sequence: '6' })
    more = 0
    await sleep(160)
    await account.checkSharing()
    const call = { to: `0x${'22'.repeat(20)}`, data: '0x01' }
    const { attempt } = await account.sign(call, 300_000, fees, [async () => true])
    t.equal(attempt!.sequence, '7')
  },
)
