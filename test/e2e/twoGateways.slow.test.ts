import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import { freePort } from '../helpers/freePort.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

// Two gateways that were started on one database, with one settling key.
const product = await startProduct(t)
const { chains, config, store } = product
const [evm] = chains.both
const port = await freePort()
const file = join(config.dir, 'second.yaml')
const own = parse(readFileSync(config.file, 'utf8'))
writeFileSync(file, stringify({ ...own, gateway: { ...own.gateway, port } }))
const errors: object[] = []
const log = { ...silentLog, error: (facts: object) => void errors.push(facts) }
const second = await startTollgate(await readConfig(file, chains.env), { env: chains.env, log })
t.teardown(() => second.close())
const url = await store.addLink({ url: `${product.api.url}/two`, slug: 'two', price: '0.01' })
const atSecond = url.replace(config.url, second.gatewayUrl)
const buyer = await newBuyer(chains, evm)

t.test(
  'one of them signs with the key; the other refuses before its seller works, and says why',
  async (t) => {
    const payments = await Promise.all(Array.from({ length: 6 }, (_, n) => buyer.sign(`${url}?n=${n}`)))
    const answers = await Promise.all(
      payments.map((payment, n) => present(`${n % 2 === 0 ? url : atSecond}?n=${n}`, payment)),
    )
    for (const [n, { status, text, body }] of answers.entries()) {
      if (n % 2 === 0) t.equal(status, 200, text)
      else t.match({ status, body }, { status: 503, body: { error: { reason: 'settler_not_started' } } })
    }
    t.equal(product.api.calls.length, 3, 'no seller has worked for nothing')
    t.equal(errors.length, 1, 'told once')
    const again = await Promise.all([1, 3, 5].map((n) => present(`${url}?n=${n}`, payments[n]!)))
    t.strictSame(
      again.map(({ status }) => status),
      [200, 200, 200],
      'the same payments are good where the key is',
    )
  },
)

t.test('when the first has ended, the second settles', async (t) => {
  await product.tollgate.close()
  const payment = await buyer.sign(`${atSecond}?n=after`)
  const answer = await eventually(async () => {
    const { status, text } = await present(`${atSecond}?n=after`, payment)
    return status === 503 ? undefined : { status, text }
  })
  t.equal(answer.status, 200, answer.text)
  t.match(await second.stack.store.purchases.ledgerCheck(), { purchases: 7, unresolvedPayments: 0 })
  t.equal((await evm.transfersTo(product.payTo(evm))).length, 7)
})
