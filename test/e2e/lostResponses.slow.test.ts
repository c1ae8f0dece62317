import { type AddressInfo, connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import { newSchema, whySkipped } from '../helpers/postgres.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { patient } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

/** Each so many answers of the server one is lost: the statement has been done, and its connection ends before the client is notified. */
const LOST_EACH = 50
/** Lost at least, however few and large the groups are in which a busy machine writes. */
const MIN_LOST = 5
const PAYMENTS = 120

const skip = (await whySkipped()) ?? false

t.test('two gateways whose database loses answers book what was paid, once each', { skip }, async (t) => {
  const { url, schema } = newSchema(t)
  const server = new URL(url)
  const target = { host: server.hostname, port: Number(server.port || 5432) }
  let isLosing = false
  let responses = 0
  let lost = 0
  const proxy = createServer((client) => {
    const upstream = connect(target)
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    client.on('data', (bytes) => upstream.write(bytes))
    upstream.on('data', (bytes) => {
      if (!isLosing || ++responses % LOST_EACH > 0) return void client.write(bytes)
      lost++
      end()
    })
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => proxy.close())
  server.port = String((proxy.address() as AddressInfo).port)

  const storage = { postgres: { url: server.href, schema, maxConnections: 4 } }
  // Blocks take their time: much is on its way when an answer is lost.
  const slow = await startChains(t, { evm: { blockTimeMs: 1_000 } })
  const product = await startProduct(
    t,
    {
      evm: { settleTimeoutMs: patient.settleTimeoutMs },
      pluginOptions: { upstream: patient.upstream },
      sections: { storage },
    },
    slow,
  )
  const { chains, config, api } = product
  const [evm] = chains.both
  const { file } = await config.beside('second')
  const second = await startTollgate(await readConfig(file, chains.env), { env: chains.env, log: silentLog })
  t.teardown(() => second.close())
  const link = await product.addLink('sold')
  const links = [link, link.replace(config.url, second.gatewayUrl)]
  const buyer = await newBuyer(chains, evm)
  const payments = await Promise.all(Array.from({ length: PAYMENTS }, (_, n) => buyer.sign(`${link}?n=${n}`)))

  isLosing = true
  let presented = 0
  const buying = payments.map(async (payment, n) => {
    await sleep(n * 60)
    // As an agent does: the same payment until it is answered, at whichever gateway.
    for (let tries = n; ; tries++) {
      if (tries === n) presented++
      const { status, body } = await present(`${links[tries % 2]}?n=${n}`, payment).catch(() => ({
        ...{ status: 0, body: undefined },
      }))
      if (status === 200) return String(body?._svc?.purchaseId)
      await sleep(250)
    }
  })
  await eventually(async () => (presented === PAYMENTS && lost >= MIN_LOST) || undefined, 120_000)
  isLosing = false
  const bought = await Promise.all(buying)
  t.comment(`${lost} answers were lost`)
  t.equal(new Set(bought).size, PAYMENTS)
  const books = second.stack.store.purchases
  const found = await eventually(async () => {
    const ledger = await books.ledgerCheck()
    return ledger.unresolvedPayments === 0 ? ledger : undefined
  })
  t.match(found, { purchases: PAYMENTS, refundDue: 0, broken: { length: 0 }, unbalanced: { length: 0 } })
  const transfers = await evm.transfersTo(product.payTo(evm))
  const booked = await Promise.all(bought.map(async (id) => (await books.find(id))?.txHash))
  t.strictSame(booked.sort(), transfers.sort(), 'each by the transfer that was its own')
  t.ok(api.calls.length >= PAYMENTS)
})
