import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { PaymentRequired } from '@x402/core/types'
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  extractPublicKeyFromKid,
  extractReceiptFromResponse,
  verifyOfferSignatureEIP712,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureEIP712,
} from '@x402/extensions/offer-receipt'
import t from 'tap'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import { until } from '../helpers/rawHttp.ts'
import { newBuyer } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t, { pluginOptions: { x402: { signedReceipts: 'with-transaction' } } })
const { chains, config, payTo, tollgate } = product
const { file } = await config.beside('second')
const second = await startTollgate(await readConfig(file, chains.env), { env: chains.env, log: silentLog })
t.teardown(() => second.close())

const documentAt = async (url: string) => (await fetch(`${url}/.well-known/did.json`)).text()

t.test('two gateways publish the same key, as the package resolves it', async (t) => {
  const document = await documentAt(config.url)
  t.equal(await documentAt(second.gatewayUrl), document)
  const { id, assertionMethod } = JSON.parse(document)
  t.equal(id, `did:web:${encodeURIComponent(new URL(config.url).host)}`)
  const key = (await extractPublicKeyFromKid(assertionMethod[0])) as CryptoKey | object
  t.ok(key, 'the package reads the key')
})

for (const chain of chains.both)
  t.test(`@x402/fetch buys with a signed offer and gets a signed receipt on ${chain.name}`, async (t) => {
    const url = await product.addLink(`signed-${chain.name}`)
    const { verificationMethod } = JSON.parse(await documentAt(config.url))
    const published = verificationMethod[1].blockchainAccountId.replace('eip155:1:', '')
    const required = (await (await fetch(url)).json()) as PaymentRequired
    const offers = decodeSignedOffers(extractOffersFromPaymentRequired(required))
    t.equal(offers.length, 2)
    for (const offer of offers)
      t.equal((await verifyOfferSignatureEIP712(offer.signedOffer as never)).signer, published)
    const offer = offers.find(({ network }) => network === chain.network)!
    t.match(offer, { resourceUrl: url, payTo: payTo(chain), amount: '10000', asset: chain.usdc })

    const buyer = await newBuyer(chains, chain)
    const response = await buyer.fetchV2(url)
    t.equal(response.status, 200)
    const receipt = extractReceiptFromResponse(response)!
    const { signer, payload } = await verifyReceiptSignatureEIP712(receipt as never)
    t.equal(signer, published)
    t.ok(verifyReceiptMatchesOffer(receipt, offer, [buyer.address]))
    t.ok((await chain.transfersTo(payTo(chain))).includes(payload.transaction))

    const { _svc: service } = (await response.json()) as { _svc: { purchaseId: string; reviewToken: string } }
    const download = () =>
      fetch(`${second.gatewayUrl}/api/v1/purchases/${service.purchaseId}/receipt`, {
        headers: { 'x-review-token': service.reviewToken },
      })
    const { purchases } = tollgate.stack.store
    const isDelivered = async () => (await purchases.find(service.purchaseId))!.status === 'delivered'
    await until(isDelivered, 'the delivery')
    t.strictSame(((await (await download()).json()) as { data: object }).data, receipt)
  })

t.test('tollgate pay writes the receipt, and tollgate verify-receipt accepts it', async (t) => {
  const url = await product.addLink('by-terminal')
  const buyer = await newBuyer(chains, chains.both[0]!)
  const env = { ...process.env, TOLLGATE_EVM_KEY: buyer.privateKey, TOLLGATE_HOME: t.testdir() }
  const file = join(env.TOLLGATE_HOME, 'receipt.json')
  const bin = resolve(import.meta.dirname, '../../cli/bin.js')
  const run = (...args: string[]) => promisify(execFile)(process.execPath, [bin, ...args], { env })
  const paid = JSON.parse((await run('pay', url, '--rpc', chains.evm.rpcUrl, '--receipt', file)).stdout)
  t.match(paid, { outcome: 'paid', warnings: [], signedReceipt: JSON.parse(readFileSync(file, 'utf8')) })
  const { stdout } = await run('verify-receipt', file, '--origin', config.url)
  t.match(JSON.parse(stdout), {
    isValid: true,
    resourceUrl: url,
    payer: buyer.address,
    transaction: paid.transaction,
  })
})
