import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { OpenAttempt, SettlementAttempt } from '../../../../core/domain/payment.ts'
import { recordOf, remember, seller, startSettler } from '../../../../test/helpers/chains/evm/settler.ts'
import { isOnChain, recoverOne } from '../../../../test/helpers/chains/recoverOne.ts'
import type { Hex } from '../rpc/nodes.ts'

t.test(
  'mined and reverted is final once it expired unused, by the clock of the chain and with a margin',
  async (t) => {
    const { chain, settler, rpc, buyer, pay, terms } = await startSettler(t)
    const { payment, identity } = await pay()
    const attempts: SettlementAttempt[] = []
    await chain.setBlacklisted(buyer.address, true)
    await settler.settle(payment, terms, identity, remember(attempts))
    const record = recordOf(identity, attempts[0]!)
    await chain.advanceTime(62)
    t.match(await recoverOne(settler, record), { status: 'pending' })
    await chain.advanceTime(60)
    t.match(await recoverOne(settler, record), {
      status: 'failed_final',
      reason: 'invalid_exact_evm_transaction_failed',
    })
    t.equal(rpc.calls('eth_sendRawTransaction'), 1, 'and it was never sent again')
  },
)

t.test(
  'an authorisation that expired unused is final, its account nonce is filled, and the next payment lands',
  async (t) => {
    const { chain, settler, rpc, pay, terms } = await startSettler(t, { receiptTimeoutMs: 50 })
    const { payment, identity } = await pay()
    const lift = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
    const attempts: SettlementAttempt[] = []
    t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'pending' })
    const record = recordOf(identity, attempts[0]!)
    await chain.advanceTime(62)
    t.match(
      await recoverOne(settler, record),
      { status: 'pending' },
      'a reorganisation could still bring it in',
    )
    await chain.advanceTime(60)
    t.match(await recoverOne(settler, record), {
      status: 'failed_final',
      reason: 'invalid_exact_evm_payload_authorization_valid_before',
    })
    lift()
    t.equal(await chain.balanceUsdc(seller as Hex), 0n)

    const soon = String(Math.floor(Date.now() / 1000) + 400)
    const next = await pay({ validBefore: soon })
    const settled = await settler.settle(next.payment, terms, next.identity, remember(attempts))
    const { status } =
      settled.status === 'pending'
        ? await recoverOne(settler, recordOf(next.identity, attempts[1]!))
        : settled
    t.equal(status, 'settled')
    t.equal(Number(attempts[1]!.sequence), Number(attempts[0]!.sequence) + 1)
    t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
  },
)

t.test('a new process sends what the old one left before it signs anything', async (t) => {
  const { chain, settler, rpc, another, pay, terms } = await startSettler(t, { receiptTimeoutMs: 50 })
  rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
  const attempts: SettlementAttempt[] = []
  const left = [await pay(), await pay()]
  for (const { payment, identity } of left) {
    t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'pending' })
  }
  await settler.close()
  rpc.clear()

  const next = another()
  // Another process resolved the first of the two, so that its nonce is a gap.
  await next.start([attempts[1]!])
  const { payment, identity } = await pay()
  t.match(await next.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
  t.match(await recoverOne(next, recordOf(left[1]!.identity, attempts[1]!)), { status: 'settled' })
  t.same(
    attempts.map(({ sequence }) => Number(sequence) - Number(attempts[0]!.sequence)),
    [0, 1, 2],
  )
  t.equal(await chain.balanceUsdc(seller as Hex), 20_000n)
})

t.test('a transfer that left the chain again is noticed, and the same bytes bring it back', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  const attempts: SettlementAttempt[] = []
  t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
  const block = Number(await chain.blockNumber())
  const record = { ...recordOf(identity, attempts[0]!, attempts[0]!.transaction), block }
  t.equal(await isOnChain(settler, record), 'yes')
  await chain.reorg(1)
  t.equal(await isOnChain(settler, record), 'unknown', 'the chain is no longer than it was')
  await chain.mine()
  t.equal(await isOnChain(settler, record), 'no')
  t.match(await recoverOne(settler, record), { status: 'pending', recheckMs: 2_000 }, 'sent again')
  t.match(await recoverOne(settler, record), { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(await isOnChain(settler, record), 'yes')
})

t.test(
  'an account nonce is not filled that a payment of a former process has, which left the chain',
  async (t) => {
    const { chain, settler, another, pay, terms } = await startSettler(t)
    const attempts: SettlementAttempt[] = []
    const soon = { validBefore: String(Math.floor(Date.now() / 1000) + 400) }
    const former = [await pay(soon), await pay(soon)]
    for (const { payment, identity } of former)
      t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
    await settler.close()
    const next = another({ strandedMs: 0, receiptTimeoutMs: 50 })
    await next.start([])
    // In the database the first of the two is open, and the second belongs to no payment.
    await next.keys![0]!.followUp!(async () => [{ ...attempts[0]!, bytes: '', isReorged: true }])
    const waiting = await pay(soon)
    await chain.setAutomine(false)
    t.match(await next.settle(waiting.payment, terms, waiting.identity, remember(attempts)), {
      status: 'pending',
    })
    await chain.reorg(2)
    // So that the node detects it.
    await chain.mine()
    const record = recordOf(waiting.identity, attempts[2]!)
    // The first check finds the missing nonce, and the second finds that it is still missing.
    for (let look = 0; look < 3; look++) await recoverOne(next, record)
    await chain.mine()
    const [first] = former
    const gone = recordOf(first!.identity, attempts[0]!, attempts[0]!.transaction)
    for (let look = 0; look < 3; look++) {
      await recoverOne(next, gone)
      await recoverOne(next, record)
      await chain.mine()
    }
    t.match(await recoverOne(next, gone), { status: 'settled', transaction: attempts[0]!.transaction })
    t.match(await recoverOne(next, record), { status: 'settled' }, 'and what waited behind it')
  },
)

t.test(
  'a payment lands again that left the chain with an empty transaction of a former process below it, although another process recovers',
  async (t) => {
    const { chain, settler, another, pay, terms } = await startSettler(t, { receiptTimeoutMs: 50 })
    const attempts: SettlementAttempt[] = []
    const soon = { validBefore: String(Math.floor(Date.now() / 1000) + 400) }
    const [refused, stored] = [await pay(soon), await pay(soon)]
    const storing = Promise.withResolvers<false>()
    const refusing = settler.settle(refused.payment, terms, refused.identity, () => storing.promise)
    while ((await settler.keys![0]!.readState()).inFlight === 0) await sleep(5)
    t.match(await settler.settle(stored.payment, terms, stored.identity, remember(attempts)), {
      status: 'pending',
    })
    storing.resolve(false)
    t.match(await refusing, { status: 'rejected' })
    t.equal(attempts[0]!.sequence, '1')
    const before = await chain.blockNumber()
    // The process fills nonce 0, and the payment lands behind it.
    while ((await chain.balanceUsdc(seller as Hex)) === 0n) await sleep(20)
    await settler.close()

    const openAttempts = async () => [{ ...attempts[0]!, bytes: '' }]
    const holder = another({ strandedMs: 0 })
    await holder.start(await openAttempts())
    await chain.reorg(Number((await chain.blockNumber()) - before))
    await chain.mine()
    t.equal(await chain.balanceUsdc(seller as Hex), 0n)
    const recovering = another({ needsStart: true })
    const record = recordOf(stored.identity, attempts[0]!)
    const isSettled = async () => (await recoverOne(recovering, record)).status === 'settled'
    for (let look = 0; look < 40 && !(await isSettled()); look++) {
      await holder.keys![0]!.followUp!(openAttempts)
      await sleep(20)
    }
    t.equal(await isSettled(), true)
    t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
  },
)

for (const hasOpen of [true, false]) {
  t.test(
    `a new process gives nobody a number that a payment of the former one was settled with, ${hasOpen ? 'nor fills it for one that is open above it' : 'where none is open'}, although it has left the chain unnoticed`,
    async (t) => {
      const { chain, settler, rpc, another, pay, terms } = await startSettler(t, { receiptTimeoutMs: 300 })
      const attempts: SettlementAttempt[] = []
      const soon = { validBefore: String(Math.floor(Date.now() / 1000) + 400) }
      const settleOne = async (by = settler) => {
        const { payment, identity } = await pay(soon)
        const { status } = await by.settle(payment, terms, identity, remember(attempts))
        return { identity, status }
      }
      const former = [await settleOne(), await settleOne()]
      t.same(
        former.map(({ status }) => status),
        ['settled', 'settled'],
      )
      if (hasOpen) {
        const lift = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
        former.push(await settleOne())
        lift()
      }
      await settler.close()
      await chain.reorg(2)
      await chain.mine()
      t.equal(await chain.balanceUsdc(seller as Hex), 0n)

      const next = another()
      const open = attempts.map((attempt, i) => ({
        ...attempt,
        bytes: '',
        ...(i < 2 && { isMined: true as const }),
      }))
      await next.start(open)
      for (let look = 0; look < 3; look++)
        await next.keys![0]!.followUp!(async () => open.filter(({ isMined }) => isMined !== true))
      const late = await settleOne(next)
      await new Promise((resolve) => setTimeout(resolve, 600))
      const all = [...former, late]
      t.equal(new Set(attempts.map(({ sequence }) => sequence)).size, all.length)
      const records = all.map(({ identity }, i) =>
        recordOf(identity, attempts[i]!, i < 2 ? attempts[i]!.transaction : null),
      )
      for (let look = 0; look < 3; look++) await next.recover(records)
      await chain.mine()
      t.same(
        (await next.recover(records)).map(({ status }) => status),
        all.map(() => 'settled'),
      )
      t.equal(await chain.balanceUsdc(seller as Hex), 10_000n * BigInt(all.length))
    },
  )
}

t.test(
  'a number of a former process that left the chain is filled once its payment can land no more',
  async (t) => {
    const { chain, settler, another, pay, terms } = await startSettler(t, { receiptTimeoutMs: 300 })
    const attempts: SettlementAttempt[] = []
    const settleOne = async (by = settler) => {
      const { payment, identity } = await pay()
      return by.settle(payment, terms, identity, remember(attempts))
    }
    t.match(await settleOne(), { status: 'settled' })
    await settler.close()
    await chain.reorg(1)
    await chain.mine()
    const next = another()
    const former = { ...attempts[0]!, bytes: '' }
    await next.start([{ ...former, isMined: true }])
    const followUp = (open: readonly OpenAttempt[]) => next.keys![0]!.followUp!(async () => open)
    await followUp([])
    t.match(await settleOne(next), { status: 'pending' }, 'it waits')
    t.equal(attempts[1]!.sequence, '1')
    const second = { ...attempts[1]!, bytes: '' }
    await followUp([{ ...former, isReorged: true }, second])
    await followUp([{ ...former, isReorged: true }, second])
    t.equal(await chain.balanceUsdc(seller as Hex), 0n)
    // Another process's recovery has given it up.
    await followUp([second])
    // A check of the nonces that was in progress did not know of it, so the next check fills it.
    for (let i = 0; i < 40 && (await chain.balanceUsdc(seller as Hex)) === 0n; i++) {
      await chain.mine()
      await sleep(50)
    }
    t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
  },
)
