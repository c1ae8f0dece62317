import { setTimeout as sleep } from 'node:timers/promises'
import type { PaymentRequired } from '@x402/core/types'
import t from 'tap'
import { examine } from '../../cli/runtime/examine.ts'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { startApi } from '../e2e/helpers/api.ts'
import { newBuyer, present } from '../e2e/helpers/buyers.ts'
import { newSellerWallets, startChains } from '../e2e/helpers/chains.ts'
import { startGateway } from '../e2e/helpers/child.ts'
import { writeConfig } from '../e2e/helpers/config.ts'
import { eventually } from '../e2e/helpers/eventually.ts'
import { openStore } from '../e2e/helpers/store.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'

/** Sales that are begun a second, and for how long before the process is killed. */
const rate = 50
const loadMs = Number(process.env['TOLLGATE_LOAD_MS'] ?? 6_000)
const buyers = 25
const recoveryMs = 30_000
/** Calls to the node a sale, of all that it takes: simulation, broadcast, receipts, recovery, the looks afterwards. */
const maxCallsASale = 10

for (const latencyMs of [40, 100]) {
  t.test(
    `killed under ${rate} sales a second, blocks of 2 s, a node ${latencyMs} ms away: recovered in 30 s`,
    async (t) => {
      const chains = await startChains(t, { evm: { blockTimeMs: 2_000 } })
      const [evm] = chains.both
      evm.rpc.add('*', { kind: 'delay', ms: latencyMs })
      const log = { level: 'info', format: 'json' }
      const config = await writeConfig(t, chains, { sections: { log } })
      const wallets = newSellerWallets(chains)
      const api = await startApi(t)
      const store = await openStore(config, chains.env, wallets)
      const first = await startGateway(t, config, chains.env)
      const url = await store.addLink({ url: api.url, slug: 'load', price: '0.01' })
      const offer = (await (await fetch(url)).json()) as PaymentRequired
      const all = await Promise.all(Array.from({ length: buyers }, () => newBuyer(chains, evm)))
      evm.rpc.resetCounters()

      const calls: Promise<unknown>[] = []
      const endMs = performance.now() + loadMs
      for (let n = 0; performance.now() < endMs; n++) {
        const payment = await all[n % buyers]!.signOffer(offer)
        calls.push(present(`${url}?n=${n}`, payment).catch(() => undefined))
        await sleep(1_000 / rate)
      }
      first.signal('SIGKILL')
      t.equal((await first.exited).signal, 'SIGKILL')
      await Promise.all(calls)
      await startGateway(t, config, chains.env)

      const books = await openDatabase(config.file, chains.env)
      t.teardown(() => books.close())
      const left = (await books.purchases.ledgerCheck()).unresolvedPayments
      t.ok(left > 0, `${left} were left open`)
      const ledger = await eventually(async () => {
        const now = await checkedLedger(books.purchases)
        const early = await books.ledger.list({ states: ['claimed'], limit: 1 })
        return now.unresolvedPayments + early.length === 0 ? now : undefined
      }, recoveryMs)
      t.match(ledger, { broken: { length: 0 }, unbalanced: { length: 0 } })
      t.strictSame(
        (await evm.transfersTo(wallets.base)).sort(),
        ledger.transactions.map(({ transaction }) => transaction).sort(),
        'the transfers on chain are those in the ledger',
      )
      t.comment(`${ledger.purchases} sold, ${left} of them recovered, ${evm.rpc.calls()} calls`)
      t.ok(evm.rpc.calls() <= maxCallsASale * ledger.purchases, `${evm.rpc.calls()} calls`)
      const findings = await examine(config.file, chains.env, { queriesChains: true })
      t.strictSame(
        findings.filter(({ ok }) => !ok),
        [],
        'doctor finds nothing wrong',
      )
    },
  )
}
