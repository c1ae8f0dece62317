import t from 'tap'
import { newBuyer, present } from '../e2e/helpers/buyers.ts'
import { startChains } from '../e2e/helpers/chains.ts'
import { startProduct } from '../e2e/helpers/product.ts'

// Blocks as on Base.
const chains = await startChains(t, { evm: { blockTimeMs: 2_000 } })
const [evm] = chains.both
const buyers = await Promise.all(Array.from({ length: 10 }, () => newBuyer(chains, evm)))
const rounds = 3
/** A simulation, a broadcast, and what else is asked a paid call: fees, looks of those whose node answered late. */
const maxCalls = 4

for (const latencyMs of [40, 100]) {
  t.test(
    `blocks of 2 s, a node ${latencyMs} ms away: ten buyers at once cost a few calls each`,
    async (t) => {
      evm.rpc.clear()
      evm.rpc.add('*', { kind: 'delay', ms: latencyMs })
      const product = await startProduct(t, { evm: { settleTimeoutMs: 30_000 } }, chains)
      const url = await product.addLink(`slow-${latencyMs}`)
      const first = `${url}?n=first`
      t.match(await present(first, await buyers[0]!.sign(first)), { status: 200 })

      evm.rpc.resetCounters()
      const statuses = await Promise.all(
        buyers.map(async (buyer, i) => {
          const seen: number[] = []
          for (let n = 0; n < rounds; n++) {
            const target = `${url}?n=${i}-${n}`
            seen.push((await present(target, await buyer.sign(target))).status)
          }
          return seen
        }),
      )
      const sold = statuses.flat()
      t.strictSame(new Set(sold), new Set([200]))
      const broadcasts = evm.rpc.calls('eth_sendRawTransaction')
      t.ok(
        broadcasts < sold.length,
        `${broadcasts} broadcasts for ${sold.length} sales: some were settled together`,
      )
      t.ok(evm.rpc.calls() <= maxCalls * sold.length, `${evm.rpc.calls()} calls for ${sold.length} sales`)
      t.equal((await evm.transfersTo(product.payTo(evm))).length, sold.length + 1)
      t.strictSame(
        (await product.doctor()).filter(({ ok }) => !ok),
        [],
      )
    },
  )
}
