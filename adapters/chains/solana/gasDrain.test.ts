import { Keypair } from '@solana/web3.js'
import t from 'tap'
import type { PaymentRecord } from '../../../core/domain/payment.ts'
import { systemClock as clock } from '../../../core/ports/clock.ts'
import { tokenProgramAddress } from '../../../core/solana/addresses.ts'
import {
  addressOf,
  network,
  realPayment,
  termsOf,
  usdc,
} from '../../../test/helpers/chains/solana/payments.ts'
import { price, type Stage, setStage } from '../../../test/helpers/chains/solana/stage.ts'
import { sendSolana, transferInstruction } from '../../../test/helpers/localnet/sendToken.ts'
import { openTestStore } from '../../../test/helpers/store/testStore.ts'
import { reasons } from './reasons.ts'

async function staged(
  t: { teardown(close: () => Promise<void>): void },
  options: Parameters<typeof setStage>[0],
) {
  // Nodes answer here, however long a busy machine takes.
  const stage = await setStage({ rpcTimeoutMs: 60_000, ...options })
  t.teardown(stage.close)
  return stage
}

const lamports = ({ chain, cast }: Stage) => chain.balanceSol(addressOf(cast.feePayer))

/** Verifies payments of one payer at once. */
async function verifyAtOnce(stage: Stage, payer: Keypair, count: number) {
  const terms = termsOf(stage.cast, usdc)
  // Each has another block hash, so its message is different.
  const payments = []
  for (let i = 0; i < count; i++) {
    payments.push(await realPayment(payer, terms, stage.chain.rpcUrl))
    stage.chain.advanceSlots(1)
  }
  const refused: string[] = []
  const verified = await Promise.all(
    payments.map(async (payment) => {
      const checked = await stage.settler.check(payment, terms)
      if (!checked.ok) return void refused.push(checked.reason)
      const { identity } = checked
      const response = await stage.settler.verify(payment, terms, identity, { storeId: 'store' })
      return response.ok
        ? { payment, terms, identity, hold: response.hold }
        : void refused.push(response.reason)
    }),
  )
  return { ready: verified.filter((one) => one !== undefined), refused }
}

t.test(
  'a wallet with money for one payment sends 30 at once: one seller works, one fee is paid',
  async (t) => {
    const stage = await staged(t, { confirmTimeoutMs: 60_000 })
    const payer = Keypair.generate()
    stage.chain.mintUsdc(addressOf(payer), price)
    const { ready, refused } = await verifyAtOnce(stage, payer, 30)
    t.equal(ready.length, 1)
    t.same([...new Set(refused)], ['payments_in_flight_exceed_balance'])
    const before = lamports(stage)
    t.match((await stage.settle(ready[0]!)).outcome, { status: 'settled' })
    t.ok(before - lamports(stage) <= 20_000n)
  },
)

t.test(
  'money moved away while sellers work costs fees for as many as may fail, and the store’s day ends it',
  async (t) => {
    const stage = await staged(t, {
      failureBudget: { failures: 3, windowMs: 600_000 },
      maxGasPerStoreAndDay: 60_000n,
    })
    const before = lamports(stage)
    const reasons = new Set<string>()
    let failed = 0
    for (let wave = 0; wave < 4; wave++) {
      const payer = Keypair.generate()
      stage.chain.mintUsdc(addressOf(payer), 10n * price)
      const { ready, refused } = await verifyAtOnce(stage, payer, 6)
      for (const reason of refused) reasons.add(reason)
      const away = { from: addressOf(payer), to: addressOf(stage.cast.payer), amountAtomic: 10n * price }
      await sendSolana(
        stage.chain,
        [payer],
        [transferInstruction(stage.chain, tokenProgramAddress.token, away)],
      )
      // A failure is final once its block is.
      for (const paid of ready) if ((await stage.settle(paid)).outcome.status !== 'rejected') failed++
      t.ok(ready.length <= 3)
    }
    t.ok(failed >= 3, `${failed} failed`)
    t.equal(stage.chain.balanceUsdc(addressOf(stage.cast.seller)), 0n)
    t.ok(before - lamports(stage) <= 60_000n, `${before - lamports(stage)} lamports lost`)
    // Busy while what is on its way could use up the rest of the day.
    t.same([...reasons].sort(), ['settler_busy', 'store_gas_budget_exhausted', 'too_many_payments_in_flight'])
  },
)

t.test('what another process finds expired costs no fee, and is in its payer’s way no more', async (t) => {
  const stage = await staged(t, { maxInFlightPerPayer: 1, maxGasPerStoreAndDay: 15_000n })
  stage.chain.dropNext()
  const { record } = await stage.settle(await stage.verify(await stage.pay()))
  const next = async () => {
    stage.chain.advanceSlots(1)
    const { payment, terms, identity } = await stage.pay()
    const verified = await stage.settler.verify(payment, terms, identity, { storeId: 'store' })
    if (verified.ok) verified.hold.release()
    return verified.ok ? 'ok' : verified.reason
  }
  t.equal(await next(), 'too_many_payments_in_flight')
  await stage.settler.forgetConcluded!(async () => [])
  t.equal(await next(), 'too_many_payments_in_flight', 'it may land still')
  await stage.settler.forgetConcluded!(async () => [
    { ...record, state: 'failed_final', errorReason: reasons.blockhashExpired },
  ])
  t.equal(await next(), 'ok')
})

for (const isKilled of [false, true]) {
  t.test(
    `what another process finds on chain costs the store’s day its fee, once, ${isKilled ? 'and where its own was killed' : 'while its own is there'}`,
    async (t) => {
      const { gas: gasBook } = openTestStore({ clock, storeClock: clock })
      const stage = await staged(t, { gasBook, maxGasPerStoreAndDay: 1_000_000n })
      const { settler } = stage
      const finder = stage.another()
      // This payment never lands, and what was set apart for it counts as no store's cost.
      const other = await stage.verify(await stage.pay(), finder)
      other.hold!.release()
      stage.chain.advanceSlots(1)
      const before = lamports(stage)
      stage.rpc.add('getSignatureStatuses', { kind: 'refuse' })
      const { outcome, record } = await stage.settle(await stage.verify(await stage.pay()))
      t.match(outcome, { status: 'pending' })
      // On a busy machine the call is over before its transaction is sent.
      await stage.rpc.whenCalled('sendTransaction')
      stage.rpc.clear()
      const sold = { ...record, storeId: 'store' }
      const [found] = await finder.recover([sold])
      t.match(found, { status: 'settled' })
      finder.booked!(sold, found!)
      if (!isKilled) {
        await settler.forgetConcluded!(async () => [{ ...sold, state: 'delivered' }])
        await settler.close()
      }
      await finder.close()
      const [day] = await gasBook.read(network, 0)
      t.equal(day?.spent, before - lamports(stage))
    },
  )
}

t.test(
  'what is found to have failed on chain only after its call was over costs its store a day of fees at most',
  async (t) => {
    const { gas: gasBook } = openTestStore({ clock, storeClock: clock })
    const stage = await staged(t, {
      gasBook,
      maxGasPerStoreAndDay: 60_000n,
      confirmTimeoutMs: 300,
      failureBudget: { failures: 3, windowMs: 600_000 },
    })
    const { settler, chain, cast, rpc } = stage
    const before = lamports(stage)
    let refusals = 0
    for (let wave = 0; wave < 6; wave++) {
      const payer = Keypair.generate()
      chain.mintUsdc(addressOf(payer), 10n * price)
      const { ready, refused } = await verifyAtOnce(stage, payer, 3)
      refusals += refused.length
      const away = { from: addressOf(payer), to: addressOf(cast.payer), amountAtomic: 10n * price }
      await sendSolana(chain, [payer], [transferInstruction(chain, tokenProgramAddress.token, away)])
      // In a block, and not sure yet, for as long as the calls wait.
      const unsure = (response: { value: (object | null)[] }) => ({
        ...response,
        value: response.value.map((status) => status && { ...status, confirmationStatus: 'processed' }),
      })
      rpc.add('getSignatureStatuses', { kind: 'result', result: unsure as never })
      const settled = await Promise.all(ready.map((one) => stage.settle(one)))
      rpc.clear()
      let rows = settled.map(({ outcome, record }) => {
        t.match(outcome, { status: 'pending', reason: reasons.pending })
        return {
          ...record,
          storeId: 'store',
          state: 'pending',
          errorReason: reasons.pending,
        } as PaymentRecord
      })
      // As recovery does: the row says why it failed before it says that nothing can come of it any more.
      for (const status of ['pending', 'failed_final'] as const) {
        const outcomes = await settler.recover(rows)
        rows = rows.map((row, i) => {
          t.match(outcomes[i], { status, reason: reasons.transactionFailed })
          settler.booked!(row, outcomes[i]!)
          return { ...row, state: status, errorReason: reasons.transactionFailed }
        })
        chain.advanceSlots(32)
      }
      await settler.forgetConcluded!(async (keys) => rows.filter(({ key }) => keys.includes(key)))
    }
    const lost = before - lamports(stage)
    t.ok(lost > 0n && lost <= 60_000n, `${lost} lamports`)
    t.ok(refusals > 0, 'then the store is refused')
    await settler.close()
    t.equal((await gasBook.read(network, 0))[0]?.spent, lost)
  },
)
