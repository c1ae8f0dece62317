import t from 'tap'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { runTollgate } from './helpers/child.ts'
import { patient } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

// Two gateways that were started on one database, with one settling key.
const product = await startProduct(t, {
  evm: { settleTimeoutMs: patient.settleTimeoutMs },
  pluginOptions: { upstream: patient.upstream },
})
const { chains, config, store } = product
const [evm] = chains.both
const { file } = await config.beside('second')
const errors: object[] = []
const log = { ...silentLog, error: (facts: object) => void errors.push(facts) }
const second = await startTollgate(await readConfig(file, chains.env), { env: chains.env, log })
t.teardown(() => second.close())
const url = await store.addLink({ url: `${product.api.url}/two`, slug: 'two', price: '0.01' })
const atSecond = url.replace(config.url, second.gatewayUrl)
const buyer = await newBuyer(chains, evm)

t.test('a buyer may call either: one of them signs, and the other hands it what it is paid', async (t) => {
  const payments = await Promise.all(Array.from({ length: 6 }, (_, n) => buyer.sign(`${url}?n=${n}`)))
  const responses = await Promise.all(
    payments.map((payment, n) => present(`${n % 2 === 0 ? url : atSecond}?n=${n}`, payment)),
  )
  for (const { status, text } of responses) t.equal(status, 200, text)
  t.equal(product.api.calls.length, 6)
  t.strictSame(errors, [])
  const again = await Promise.all(
    payments.map((payment, n) => present(`${n % 2 === 0 ? atSecond : url}?n=${n}`, payment)),
  )
  t.strictSame(
    again.map(({ text }) => text),
    responses.map(({ text }) => text),
    'and a repeat gets its answer from either',
  )
  t.equal(product.api.calls.length, 6)
})

t.test('one payment, a hundred times at once over both: one call, one purchase, one transfer', async (t) => {
  const payment = await buyer.sign(`${atSecond}?n=hundred`)
  const responses = await Promise.all(
    Array.from({ length: 100 }, (_, n) => present(`${n % 2 === 0 ? url : atSecond}?n=hundred`, payment)),
  )
  const served = responses.filter(({ status }) => status === 200)
  t.ok(served.length > 0)
  t.ok(served.every(({ text }) => text === served[0]!.text))
  t.equal(product.api.calls.length, 7)
  t.match(await second.stack.store.purchases.ledgerCheck(), { purchases: 7, unresolvedPayments: 0 })
  t.equal((await evm.transfersTo(product.payTo(evm))).length, 7)
})

t.test('one with another secret does not start beside them', async (t) => {
  const env = { ...chains.env, TOLLGATE_SECRET: 'ab'.repeat(32) }
  const { file: third } = await config.beside('third')
  // In a process of its own: a start in this one would keep both from renewing their leases, until neither counts any more.
  t.match(await runTollgate(t, ['start', '--config', third], env).exited, {
    code: 1,
    stderr: /another secret uses this database/,
  })
})

t.test('when the first has ended, the second settles', async (t) => {
  await product.tollgate.close()
  const payment = await buyer.sign(`${atSecond}?n=after`)
  const response = await eventually(async () => {
    const { status, text } = await present(`${atSecond}?n=after`, payment)
    return status === 503 ? undefined : { status, text }
  })
  t.equal(response.status, 200, response.text)
  t.match(await second.stack.store.purchases.ledgerCheck(), { purchases: 8, unresolvedPayments: 0 })
  t.equal((await evm.transfersTo(product.payTo(evm))).length, 8)
})
