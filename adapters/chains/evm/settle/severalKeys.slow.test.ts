import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Settler } from '../../../../core/ports/chains/settler.ts'
import { recordOf, seller, startSettler } from '../../../../test/helpers/chains/evm/settler.ts'
import { ownReasons } from '../../refusals.ts'
import { transfersIn } from '../check/transferCalls.ts'
import type { EvmSettlerOptions } from '../options.ts'
import type { Hex } from '../rpc/nodes.ts'

/** A settler with keys of its own, each funded or not, and a way to settle many payments at once. */
async function startKeys(t: Test, wei: readonly bigint[], changes: Partial<EvmSettlerOptions> = {}) {
  const fixture = await startSettler(t, { sharedKeyMs: 0, ...changes })
  const { chain, another, pay, terms } = fixture
  const privateKeys = wei.map(() => generatePrivateKey())
  const addresses = privateKeys.map((key) => privateKeyToAddress(key))
  for (const [i, address] of addresses.entries()) await chain.fundEth(address, wei[i]!)
  const idOf = (i: number) => `evm:eip155:84532:${addresses[i]!.toLowerCase()}`
  const make = (more: Partial<EvmSettlerOptions> = {}) => another({ privateKeys, ...more })
  const stored: SettlementAttempt[] = []
  const settleAll = async (settler: Settler, payments: readonly Awaited<ReturnType<typeof pay>>[]) => {
    const holds = await Promise.all(
      payments.map(async ({ payment, identity }) => {
        const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
        return verified.ok ? verified.hold : verified
      }),
    )
    return Promise.all(
      payments.map(async ({ payment, identity }, i) => {
        const hold = holds[i]!
        if ('ok' in hold) return hold
        const store = async (attempt: SettlementAttempt) => stored.push(attempt) > 0
        return settler.settle(payment, terms, identity, store, hold)
      }),
    )
  }
  const several = (count: number) => Promise.all(Array.from({ length: count }, () => pay()))
  const signedBy = (i: number) => stored.filter(({ settler }) => settler === idOf(i)).length
  return { ...fixture, privateKeys, addresses, idOf, make, stored, settleAll, several, signedBy }
}

const ether = 10n ** 18n
const statuses = (outcomes: readonly object[]) =>
  outcomes.map((one) => ('status' in one ? one.status : 'refused'))
const all = (count: number, status: string) => Array(count).fill(status)

t.test('twenty at once over a node 40 ms away are twenty transfers, spread over the keys', async (t) => {
  const { chain, rpc, make, stored, settleAll, several, signedBy } = await startKeys(t, [ether, ether], {
    maxPaymentsPerTransaction: 1,
  })
  const settler = make()
  rpc.add('*', { kind: 'delay', ms: 40 })
  t.same(statuses(await settleAll(settler, await several(20))), all(20, 'settled'))
  t.equal(await chain.balanceUsdc(seller as Hex), 200_000n)
  t.same([signedBy(0), signedBy(1)], [10, 10])
  t.equal(new Set(stored.map((one) => `${one.settler} ${one.sequence}`)).size, 20)
})

t.test('it is transactions that are spread: payments that can be settled together still are', async (t) => {
  const { chain, make, stored, settleAll, several, signedBy } = await startKeys(t, [ether, ether], {
    maxPaymentsPerTransaction: 4,
    batchWindowMs: 1_000,
  })
  const settler = make()
  await settler.start([])
  t.same(statuses(await settleAll(settler, await several(16))), all(16, 'settled'))
  t.equal(await chain.balanceUsdc(seller as Hex), 160_000n)
  t.ok(stored.every(({ bytes }) => transfersIn(bytes).length === 4))
  t.same([signedBy(0), signedBy(1)], [8, 8])
})

t.test('a key without gas is passed over, and said; with gas it settles again', async (t) => {
  const options = { maxPaymentsPerTransaction: 1, headMaxAgeMs: 0 }
  const { chain, make, settleAll, several, signedBy, addresses } = await startKeys(t, [0n, ether], options)
  const settler = make()
  t.same(statuses(await settleAll(settler, await several(6))), all(6, 'settled'))
  t.same([signedBy(0), signedBy(1)], [0, 6])
  const words = (await settler.diagnose()).join()
  t.match(words, new RegExp(`${addresses[0]} can pay the fees of at most 0 more`))
  t.notMatch(words, new RegExp(addresses[1]!))
  const left = await Promise.all(settler.keys!.map(async (key) => (await key.readState()).paymentsLeft > 0n))
  t.same(left, [false, true])
  await chain.fundEth(addresses[0]!, ether)
  t.same(statuses(await settleAll(settler, await several(6))), all(6, 'settled'))
  t.equal(signedBy(0), 3)
})

/** Highest cost of this much gas now, at twice the base fee, in wei. */
async function weiOf(gas: bigint, chain: { rpc<T>(method: string, ...params: unknown[]): Promise<T> }) {
  const block = await chain.rpc<{ baseFeePerGas: Hex }>('eth_getBlockByNumber', 'latest', false)
  return gas * 2n * BigInt(block.baseFeePerGas)
}

t.test('nobody is served for whom all keys together have too little', async (t) => {
  const options = { maxPaymentsPerTransaction: 1, headMaxAgeMs: 0, maxPriorityFeePerGasWei: 0n }
  const { chain, make, several, terms, addresses } = await startKeys(t, [0n, 0n], options)
  const settler = make()
  for (const address of addresses) await chain.fundEth(address, ((await weiOf(600_000n, chain)) * 5n) / 2n)
  const polls = await Promise.all(settler.keys!.map((key) => key.readState()))
  const left = polls.map(({ paymentsLeft }) => Number(paymentsLeft))
  t.ok(left.every((payments) => payments >= 2))
  const together = left[0]! + left[1]!
  // One after the other, because payments that come at once are counted before any of them is judged.
  let served = 0
  for (const { payment, identity } of await several(together + 3))
    if ((await settler.verify(payment, terms, identity, { storeId: 'store' })).ok) served++
  t.equal(served, together)
})

t.test('what a store may cost in a day is the same with three keys as with one', async (t) => {
  const fixture = await startKeys(t, [ether, ether, ether], { maxPriorityFeePerGasWei: 0n })
  const { chain, make, several, terms, privateKeys } = fixture
  const payments = await several(8)
  const maxGasPerStoreAndDay = ((await weiOf(300_000n, chain)) * 7n) / 2n
  for (const keys of [privateKeys, privateKeys.slice(0, 1)]) {
    const settler = make({ privateKeys: keys, maxGasPerStoreAndDay })
    const verified = await Promise.all(
      payments.map(({ payment, identity }) => settler.verify(payment, terms, identity, { storeId: 'store' })),
    )
    t.equal(verified.filter(({ ok }) => ok).length, 3)
    t.equal(verified.filter((one) => !one.ok && one.reason === ownReasons.settlerBusy).length, 5)
  }
})

t.test('a key with a gap before its numbers is passed over; what it signed stays its own', async (t) => {
  const options = { maxPaymentsPerTransaction: 1, receiptTimeoutMs: 500 }
  const fixture = await startKeys(t, [ether, ether], options)
  const { chain, make, stored, settleAll, several, signedBy, idOf, addresses } = fixture
  const settler = make()
  const [stuckAddress] = addresses
  // Another program uses one of its nonces, and a reorganization undoes that.
  await chain.rpc('anvil_impersonateAccount', stuckAddress!)
  await chain.send({ from: stuckAddress!, to: addresses[1]! })
  t.same(statuses(await settleAll(settler, await several(2))), all(2, 'settled'))
  t.same([signedBy(0), signedBy(1)], [1, 1])
  await chain.rpc('anvil_setNonce', stuckAddress!, '0x0')
  const payments = await several(2)
  const outcomes = await settleAll(settler, payments)
  t.same(statuses(outcomes).toSorted(), ['pending', 'settled'])
  const waiting = statuses(outcomes).indexOf('pending')
  const stuck = stored.filter(({ settler: id }) => id === idOf(0))[1]!
  await sleep(10_500)
  t.same(statuses(await settleAll(settler, await several(4))), all(4, 'settled'))
  t.equal(signedBy(0), 2, 'nothing more is signed with it')
  t.match((await settler.keys![0]!.readState()).trouble, { kind: 'stuck', words: /has waited for its block/ })
  t.match((await settler.diagnose()).join(), new RegExp(`settling key ${stuckAddress} has waited`))
  t.equal(await chain.balanceUsdc(seller as Hex), 70_000n)
  // The other program's transaction is mined again, and the transactions that waited for it land with their own bytes.
  const back = { from: stuckAddress!, to: addresses[1]!, gas: '0x5208', nonce: '0x0' }
  await chain.rpc('eth_sendTransaction', back)
  let found = outcomes[waiting] as { status: string }
  for (let i = 0; i < 100 && found.status === 'pending'; i++) {
    found = (await settler.recover([recordOf(payments[waiting]!.identity, stuck)]))[0]!
    await sleep(50)
  }
  t.match(found, { status: 'settled', transaction: stuck.transaction })
  t.equal(await chain.balanceUsdc(seller as Hex), 80_000n, 'eight payments, eight transfers')
  t.same(statuses(await settleAll(settler, await several(4))), all(4, 'settled'))
  t.equal(signedBy(0), 4, 'and the key is used again')
})

t.test('what was stored and not sent is sent as it was signed, by whoever has its key next', async (t) => {
  const { chain, rpc, make, pay, terms, idOf, addresses } = await startKeys(t, [ether, ether], {
    receiptTimeoutMs: 300,
  })
  const first = make()
  const { payment, identity } = await pay()
  const attempts: SettlementAttempt[] = []
  const lift = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
  const outcome = await first.settle(payment, terms, identity, async (one) => attempts.push(one) > 0)
  t.match(outcome, { status: 'pending' })
  await first.close()
  lift()
  const next = make()
  const [attempt] = attempts
  t.ok([idOf(0), idOf(1)].includes(attempt!.settler))
  await next.start(
    attempts.map(({ settler, sequence }) => ({ settler, sequence: sequence!, bytes: '' }) as never),
  )
  const [found] = await next.recover([recordOf(identity, attempt!)])
  t.equal(found!.status, 'pending')
  let settled = found!
  for (let i = 0; i < 50 && settled.status === 'pending'; i++) {
    await sleep(100)
    settled = (await next.recover([recordOf(identity, attempt!)]))[0]!
  }
  t.match(settled, { status: 'settled', transaction: attempt!.transaction })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
  const used = await Promise.all(
    addresses.map((one) => chain.rpc<string>('eth_getTransactionCount', one, 'latest')),
  )
  t.same(used.map(Number).toSorted(), [0, 1], 'no other key signed for it')
})

t.test(
  'a key that another program signs with is left alone until that is over, and the others go on',
  async (t) => {
    const { chain, make, settleAll, several, signedBy, addresses } = await startKeys(t, [ether, ether], {
      maxPaymentsPerTransaction: 1,
      sharedKeyMs: 60_000,
    })
    const settler = make()
    await settler.start([])
    await chain.rpc('anvil_impersonateAccount', addresses[1]!)
    await chain.send({ from: addresses[1]!, to: addresses[0]! })
    // It looks every two seconds.
    await sleep(2_100)
    t.same(statuses(await settleAll(settler, await several(6))), all(6, 'settled'))
    t.same([signedBy(0), signedBy(1)], [6, 0])
    t.match((await settler.keys![1]!.readState()).trouble, { kind: 'shared', words: /Another program signs/ })
  },
)

t.test('only keys that this process may sign with are used', async (t) => {
  const { make, settleAll, several, signedBy } = await startKeys(t, [ether, ether], {
    maxPaymentsPerTransaction: 1,
    needsStart: true,
  })
  const settler = make()
  let isMine = true
  t.same(statuses(await settleAll(settler, await several(1))), ['refused'], 'none is started')
  await settler.keys![1]!.start!([], () => isMine)
  t.same(statuses(await settleAll(settler, await several(4))), all(4, 'settled'))
  t.same([signedBy(0), signedBy(1)], [0, 4])
  t.match((await settler.diagnose()).join(), /another process has the key/)
  await settler.keys![0]!.start!([])
  isMine = false
  t.same(statuses(await settleAll(settler, await several(4))), all(4, 'settled'))
  t.same([signedBy(0), signedBy(1)], [4, 4])
})

t.test(
  'what waited when another process took the key is neither said nor counted once that is over',
  async (t) => {
    const { chain, rpc, make, settleAll, several, stored } = await startKeys(t, [ether], {
      needsStart: true,
      receiptTimeoutMs: 300,
    })
    const settler = make()
    const [key] = settler.keys!
    let isMine = true
    await key!.start!([], () => isMine)
    const lift = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
    t.same(statuses(await settleAll(settler, await several(1))), ['pending'])
    t.equal((await key!.readState()).inFlight, 1)
    // This process is paused, and another process has the key and sends what is stored.
    isMine = false
    await chain.rpc('eth_sendRawTransaction', stored[0]!.bytes)
    lift()
    await sleep(10_500)
    t.notOk((await key!.readState()).trouble)
    t.notMatch((await settler.diagnose()).join(), /has waited/)
    // It gets the key back once none of the key's payments is open.
    isMine = true
    await key!.start!([], () => isMine)
    t.equal((await key!.readState()).inFlight, 0)
    t.notOk((await key!.readState()).trouble)
    t.same(statuses(await settleAll(settler, await several(1))), ['settled'])
  },
)

t.test('the same key twice, and no key, are refused without naming it', async (t) => {
  const { make, privateKeys } = await startKeys(t, [ether])
  const [key] = privateKeys
  for (const keys of [[key!, `0x${key!.slice(2).toUpperCase()}`], []])
    t.throws(() => make({ privateKeys: keys }), { code: 'VALIDATION_ERROR' })
  try {
    make({ privateKeys: [key!, key!] })
  } catch (error) {
    t.notMatch(String(error), new RegExp(key!.slice(2), 'i'))
  }
})

t.test(
  'whose keys go elsewhere while the chain is asked is told so: nobody else signs with them',
  async (t) => {
    const { rpc, make, terms, pay } = await startKeys(t, [ether, ether], { needsStart: true })
    const settler = make()
    let isMine = true
    await settler.start([], () => isMine)
    const { payment, identity } = await pay()
    rpc.add('eth_call', { kind: 'hold' })
    rpc.resetCounters()
    const verifying = settler.verify(payment, terms, identity, { storeId: 'store' })
    await rpc.whenCalled('eth_call')
    isMine = false
    rpc.clear()
    t.match(await verifying, { ok: false, reason: ownReasons.notStarted })
  },
)
