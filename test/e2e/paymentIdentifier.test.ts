import { once } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

// The official client with its extension, on both chains, and two gateways on one database.
const product = await startProduct(t)
const { chains, api, config, payTo, tollgate } = product
const { file } = await config.beside('second')
const startBeside = async () =>
  startTollgate(await readConfig(file, chains.env), { env: chains.env, log: silentLog })
let second = await startBeside()
t.teardown(() => second.close())
const { purchases } = tollgate.stack.store

/** Calls from an address of this machine that is not the buyers'. */
async function fromElsewhere(url: string, payment: string) {
  const headers = { 'payment-signature': payment }
  const [response] = await once(request(url, { localAddress: '127.0.0.2', headers }).end(), 'response')
  return {
    status: response.statusCode,
    receipt: response.headers['payment-response'],
    text: await text(response),
  }
}

for (const chain of chains.both) {
  const url = await product.addLink(`named-${chain.name}`)
  const beside = () => url.replace(config.url, second.gatewayUrl)
  const buyer = await newBuyer(chains, chain)
  const seen = async () => ({
    transfers: (await chain.transfersTo(payTo(chain))).length,
    purchases: (await purchases.ledgerCheck()).purchases,
    calls: api.calls.length,
  })
  const since = async (before: Awaited<ReturnType<typeof seen>>) => {
    const now = await seen()
    return [now.transfers - before.transfers, now.purchases - before.purchases, now.calls - before.calls]
  }
  const conflict = { status: 409, body: { error: { code: 'payment_id_reused' }, purchaseId: String } }

  t.test(
    `the client's own flow pays once; a second payment with the id is a conflict on ${chain.name}`,
    async (t) => {
      const before = await seen()
      const named = buyer.named(`flow-${chain.name}-0123456789`)
      const first = await read(await named.fetchV2(`${url}?n=flow`))
      t.match(first, { status: 200, receipt: { success: true, transaction: String } }, first.text)
      const again = await read(await named.fetchV2(`${url}?n=flow`))
      t.match(again, {
        ...conflict,
        receipt: { success: false, errorReason: 'payment_id_reused', transaction: '' },
      })
      t.equal(again.body.purchaseId, first.body._svc!.purchaseId)
      t.match(
        await read(await named.fetchV2(`${beside()}?n=else`)),
        conflict,
        'at another gateway, for another call',
      )
      t.strictSame(await since(before), [1, 1, 1])
    },
  )

  t.test(`a client that lost its response gets it by the same payment on ${chain.name}`, async (t) => {
    const before = await seen()
    const target = `${url}?n=lost`
    const payment = await buyer.named(`lost-${chain.name}-0123456789`).sign(target)
    const first = await present(target, payment)
    t.equal(first.status, 200, first.text)
    const receipt = first.headers.get('payment-response')
    t.strictSame(await fromElsewhere(target, payment), { status: 200, receipt, text: first.text })
    await second.close()
    second = await startBeside()
    const restarted = await fromElsewhere(`${beside()}?n=lost`, payment)
    t.strictSame(restarted, { status: 200, receipt, text: first.text }, 'after a restart, too')
    t.strictSame(await since(before), [1, 1, 1])
  })

  t.test(
    `of twenty payments at once with one id, over both gateways, one is charged on ${chain.name}`,
    async (t) => {
      const named = buyer.named(`race-${chain.name}-0123456789`)
      const payments = await Promise.all(Array.from({ length: 20 }, () => named.sign(`${url}?n=race`)))
      t.equal(new Set(payments).size, 20)
      const before = await seen()
      const responses = await Promise.all(
        payments.map((payment, i) => present(`${i % 2 === 0 ? url : beside()}?n=race`, payment)),
      )
      const served = responses.filter(({ status }) => status === 200)
      t.equal(served.length, 1)
      for (const response of responses)
        if (response.status !== 200) t.match(response, conflict, response.text)
      t.strictSame(await since(before), [1, 1, 1])
    },
  )

  t.test(
    `a client without the extension sends back what it was offered, and pays on ${chain.name}`,
    async (t) => {
      const payment = await buyer.sign(`${url}?n=plain`)
      const { extensions } = JSON.parse(Buffer.from(payment, 'base64').toString())
      t.match(extensions['payment-identifier'], { info: { required: false } })
      t.equal((await present(`${url}?n=plain`, payment)).status, 200)
      t.equal((await read(await buyer.fetchV2(`${url}?n=plain`))).status, 200)
    },
  )

  t.test(`an id is free again when its payment was refused on ${chain.name}`, async (t) => {
    const poor = await newBuyer(chains, chain, 1_000n)
    const named = poor.named(`refused-${chain.name}-0123456789`)
    const refused = await read(await named.fetchV2(`${url}?n=refused`))
    t.match(refused, { status: 402, body: { error: { code: 'invalid_payment' } } })
    await (chain.name === 'evm'
      ? chains.evm.mintUsdc(poor.address as `0x${string}`, 50_000n)
      : chains.solana.mintUsdc(poor.address, 50_000n))
    const paid = await read(await named.fetchV2(`${url}?n=refused`))
    t.equal(paid.status, 200, paid.text)
  })
}
