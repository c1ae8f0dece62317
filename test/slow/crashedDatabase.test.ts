import { randomUUID } from 'node:crypto'
import t from 'tap'
import { openPostgres } from '../../adapters/store/postgres/openPostgres.ts'
import { type PaymentRecord, paymentStates } from '../../core/domain/payment.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { addStore, startGateway } from '../helpers/gateway.ts'
import { until } from '../helpers/rawHttp.ts'
import { startSeller } from '../helpers/sellers.ts'
import { startPostgresServer, whyNoPostgresServer } from '../helpers/servers/startPostgresServer.ts'
import { createScriptedSettler, scriptedPayment } from '../helpers/settler.ts'

t.setTimeout(300_000)

const skip = process.env.CI === undefined && (whyNoPostgresServer() ?? false)
const ROUNDS = 4
const CALLS = 8

for (const settle of ['after', 'before'] as const) {
  t.test(
    `a PostgreSQL that crashes as calls are answered turns no served sale into a debt, settle ${settle}`,
    { skip },
    async (t) => {
      const server = await startPostgresServer(t)
      const store = await openPostgres({ url: server.url, clock: systemClock, log: silentLog })
      t.teardown(() => store.close())
      const storeId = randomUUID()
      await addStore(store, storeId)
      const gateway = await startGateway(t, { store, settlers: [createScriptedSettler()] })
      const seller = await startSeller(t, 'hello')
      const { url } = await gateway.addLink({ storeId, slug: 'paid', url: seller.url, price: '0.10', settle })
      const call = async (payment: string) => {
        const response = await fetch(url, {
          headers: { 'payment-signature': scriptedPayment(payment, '100000') },
        })
        await response.arrayBuffer()
        return response.status
      }
      let answered = 0
      for (let round = 0; round < ROUNDS; round++) {
        const calls = Array.from({ length: CALLS }, (_, i) => call(`${round} ${i}`))
        const first = await Promise.any(calls)
        t.equal(first, 200)
        await server.stop('immediate')
        answered += (await Promise.all(calls)).filter((status) => status === 200).length
        await server.start()
        let rows: PaymentRecord[] = []
        await until(
          async () => {
            rows = await store.ledger.list({ states: paymentStates, limit: 1_000 }).catch(() => [])
            return rows.filter(({ state }) => state === 'delivered').length >= answered
          },
          `${answered} answers to be noted, of ${JSON.stringify(rows.map(({ state }) => state))}`,
        )
      }
      t.ok(answered >= ROUNDS)
      const check = await store.purchases.ledgerCheck()
      t.match(check, { broken: { length: 0 }, unbalanced: { length: 0 } })
    },
  )
}
