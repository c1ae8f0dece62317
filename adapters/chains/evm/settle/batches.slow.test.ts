import t from 'tap'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import {
  newAccount,
  recordOf,
  seller,
  signPayment,
  startSettler,
} from '../../../../test/helpers/chains/evm/settler.ts'
import type { Hex } from '../rpc/nodes.ts'

for (const roundTripMs of [40, 100]) {
  t.test(
    `200 payments at once, a block every 2 s, a node ${roundTripMs} ms away that loses the first broadcast`,
    async (t) => {
      const fixture = await startSettler(t, { receiptTimeoutMs: 20_000, pollMs: 500 })
      const { chain, settler, rpc, terms } = fixture
      const payments = []
      for (let i = 0; i < 200; i++) {
        const buyer = newAccount()
        await chain.mintUsdc(buyer.address, 10_000n)
        const payment = await signPayment(buyer, terms)
        const checked = await settler.check(payment, terms)
        if (!checked.ok) throw new Error(checked.message)
        payments.push({ payment, identity: checked.identity })
      }
      await settler.start([])
      const holds = await Promise.all(
        payments.map(async ({ payment, identity }) => {
          const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
          if (!verified.ok) throw new Error(verified.message)
          return verified.hold
        }),
      )
      const poor = payments[77]!.identity.payer as Hex
      await chain.setBlacklisted(poor, true)
      await chain.rpc('evm_setAutomine', false)
      await chain.rpc('evm_setIntervalMining', 2)
      rpc.add('*', { kind: 'delay', ms: roundTripMs })
      rpc.add('eth_sendRawTransaction', { kind: 'refuse' }, 1)
      const kept: SettlementAttempt[] = []
      const outcomes = await Promise.all(
        payments.map(({ payment, identity }, i) =>
          settler.settle(
            payment,
            terms,
            identity,
            async (attempt) => {
              kept[i] = attempt
              return true
            },
            holds[i],
          ),
        ),
      )
      const settled = outcomes.filter(({ status }) => status === 'settled')
      t.equal(settled.length, 199)
      t.match(outcomes[77], { status: 'pending', reason: 'invalid_exact_evm_transaction_failed' })
      t.equal(await chain.balanceUsdc(seller as Hex), 199n * 10_000n)
      t.ok(new Set(kept.map(({ sequence }) => sequence)).size <= 10, 'in some seven transactions')
      const indexes = settled.map((one) => one.status === 'settled' && `${one.transaction} ${one.event}`)
      t.equal(new Set(indexes).size, 199)
      rpc.clear()

      await chain.setBlacklisted(poor, false)
      const record = recordOf(payments[77]!.identity, kept[77]!)
      t.match(await settler.recover([record]), [{ status: 'pending' }], 'anybody may send it still')
    },
  )
}
