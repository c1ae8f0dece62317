import type { IncomingHttpHeaders } from 'node:http'
import { base58 } from '@scure/base'
import { createKeyPairSignerFromBytes } from '@solana/kit'
import { x402Client, x402HTTPClient } from '@x402/core/client'
import { ExactEvmScheme } from '@x402/evm'
import {
  createSIWxClientExtension,
  createSIWxPayload,
  encodeSIWxHeader,
  type SIWxSigner,
  wrapFetchWithSIWx,
} from '@x402/extensions/sign-in-with-x'
import { wrapFetchWithPayment } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import t from 'tap'
import { privateKeyToAccount } from 'viem/accounts'
import { createEvmBuyer } from '../../buyer/chains/evmBuyer.ts'
import { createSolanaBuyer } from '../../buyer/chains/solanaBuyer.ts'
import { payForUrl } from '../../buyer/payForUrl.ts'
import { createPaymentFiles } from '../../cli/pay/paymentFiles.ts'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import { answerWell } from './helpers/api.ts'
import { type Buyer, newBuyer, read } from './helpers/buyers.ts'
import type { Chain } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'

// The official client with its extension, on both chains, and two gateways on one database.
const product = await startProduct(t)
const { chains, api, config, payTo } = product
const { file } = await config.beside('second')
const second = await startTollgate(await readConfig(file, chains.env), { env: chains.env, log: silentLog })
t.teardown(() => second.close())

/** The heads of the calls that reached the seller. */
const headers: IncomingHttpHeaders[] = []
api.answerWith((request, response) => {
  headers.push(request.headers)
  answerWell(request, response)
})

/** A client that signs in if it can, and otherwise pays, as its packages say. */
async function signingIn(buyer: Buyer): Promise<{ fetch: typeof fetch; signer: SIWxSigner }> {
  const { chain, privateKey } = buyer
  const account = chain.name === 'evm' ? privateKeyToAccount(privateKey as `0x${string}`) : undefined
  const signer = account ?? (await createKeyPairSignerFromBytes(base58.decode(privateKey)))
  const scheme =
    account !== undefined
      ? new ExactEvmScheme(account)
      : new ExactSvmScheme(signer as never, { rpcUrl: chains.solana.rpcUrl })
  const client = x402Client.fromConfig({ schemes: [{ network: chain.network, client: scheme }] })
  const http = new x402HTTPClient(client)
  client.registerExtension(createSIWxClientExtension({ signers: [signer as SIWxSigner] }))
  return { fetch: wrapFetchWithPayment(fetch, http) as typeof fetch, signer: signer as SIWxSigner }
}

/** The offer of the 402 that a call without payment gets. */
async function offerOf(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { headers })
  const header = response.headers.get('payment-required')
  return { status: response.status, offer: header === null ? undefined : decoded(header) }
}

const decoded = (header: string) => JSON.parse(Buffer.from(header, 'base64').toString())

async function headerFor(chain: Chain, signer: SIWxSigner, url: string): Promise<string> {
  const { offer } = await offerOf(url)
  const { info, supportedChains } = offer.extensions['sign-in-with-x']
  const found = supportedChains.find(({ chainId }: { chainId: string }) => chainId === chain.network)
  return encodeSIWxHeader(await createSIWxPayload({ ...info, ...found }, signer, url))
}

for (const chain of chains.both) {
  const { name } = chain

  t.test(`a wallet pays once and comes back by its signature (${name})`, async (t) => {
    const url = await product.addLink(`back-${name}`, '0.01', { access: { paidFor: '24h' } })
    const buyer = await newBuyer(chains, chain)
    const client = await signingIn(buyer)
    const first = await read(await client.fetch(`${url}?n=1`))
    t.match(first, { status: 200, receipt: { success: true }, body: { data: {}, _svc: {} } }, first.text)
    const again = await read(await client.fetch(`${url}?n=2`))
    t.equal(again.status, 200, again.text)
    t.equal(again.receipt, undefined, 'nothing was paid')
    t.strictSame(again.body._svc, first.body._svc, 'the purchase that gives access')
    t.equal(again.headers.get('cache-control'), 'private, no-store')
    t.equal((await chain.transfersTo(payTo(chain))).length, 1)
    const { purchaseId } = first.body._svc!
    const kept = await read(await client.fetch(`${config.url}/api/purchases/${purchaseId}/response`))
    t.equal(kept.text, first.text, 'the stored response of the purchase')
    t.match(kept.receipt, first.receipt)
    const stranger = await signingIn(await newBuyer(chains, chain, 0n))
    const theirs = await stranger.fetch(`${config.url}/api/purchases/${purchaseId}/response`)
    t.equal(theirs.status, 403)
    t.match(headers.at(-1), { 'x-signed-in-wallet': buyer.address })
    t.notOk('sign-in-with-x' in headers.at(-1)!)
    // The package's older client signs for the first entry of the offer only.
    if ((await offerOf(url)).offer.accepts[0].network !== chain.network) return
    t.equal((await wrapFetchWithSIWx(fetch, client.signer)(`${url}?n=3`)).status, 200)
  })

  t.test(`a link for signed-in wallets needs no payment (${name})`, async (t) => {
    const url = await product.addLink(`wallets-${name}`, '0', { access: 'signed-in' })
    const { status, offer } = await offerOf(url)
    t.equal(status, 402)
    t.strictSame(offer.accepts, [])
    const buyer = await newBuyer(chains, chain, 0n)
    const client = await signingIn(buyer)
    const called = await read(await client.fetch(`${url}?n=1`))
    t.equal(called.status, 200, called.text)
    t.match(headers.at(-1), { 'x-signed-in-wallet': buyer.address })
    const forged = await fetch(url, { headers: { 'x-signed-in-wallet': buyer.address } })
    t.equal(forged.status, 402)
  })

  t.test(`another wallet, another link and a second use get a fresh 402 (${name})`, async (t) => {
    const url = await product.addLink(`mine-${name}`, '0.01', { access: { paidFor: '24h' } })
    const other = await product.addLink(`other-${name}`, '0.01', { access: { paidFor: '24h' } })
    const client = await signingIn(await newBuyer(chains, chain))
    await client.fetch(url)
    const stranger = await signingIn(await newBuyer(chains, chain, 0n))
    const calls = api.calls.length
    const tried = async (to: string, header: string) => {
      const { status, offer } = await offerOf(to, { 'sign-in-with-x': header })
      return [status, offer?.error]
    }
    const strangers = await headerFor(chain, stranger.signer, url)
    t.strictSame(await tried(url, strangers), [402, 'payment_required'])
    t.strictSame(await tried(other, await headerFor(chain, client.signer, other)), [402, 'payment_required'])
    t.strictSame(await tried(other, await headerFor(chain, client.signer, url)), [
      402,
      'invalid_siwx_uri_mismatch',
    ])
    t.equal(api.calls.length, calls, 'the seller is not called')
    const header = await headerFor(chain, client.signer, url)
    t.equal((await tried(url, header))[0], 200)
    t.strictSame(await tried(url, header), [402, 'invalid_siwx_nonce'])
  })

  t.test(`the gateway's own buyer signs in, and pays only if it has to (${name})`, async (t) => {
    const url = await product.addLink(`own-${name}`, '0.01', { access: { paidFor: '24h' } })
    const free = await product.addLink(`own-free-${name}`, '0', { access: 'signed-in' })
    const { privateKey } = await newBuyer(chains, chain)
    const payments = createPaymentFiles(t.testdir())
    const { rpcUrl } = chains[chain.name]
    const pay = (to: string, signIn: boolean) => {
      const wallets =
        chain.name === 'evm'
          ? { eip155: createEvmBuyer({ privateKey: privateKey as `0x${string}`, rpcUrl }) }
          : { solana: createSolanaBuyer({ secret: base58.decode(privateKey), rpcUrl }) }
      return payForUrl({ url: to, wallets, payments, rpcUrl, signIn, headers: ['Accept', '*/*'] })
    }
    const paid = await pay(`${url}?n=1`, true)
    t.match(paid, { outcome: 'paid', charged: 'yes' }, paid.message)
    const again = await pay(`${url}?n=2`, true)
    t.match(again, { outcome: 'free', charged: 'no', message: /Signed in with/ }, again.message)
    t.match(await pay(`${free}?n=3`, false), { outcome: 'refused', message: /--sign-in/ })
    t.match(await pay(`${free}?n=4`, true), { outcome: 'free', payment: null })
  })

  t.test(`a sign-in that comes 50 times at once to two gateways is accepted once (${name})`, async (t) => {
    const url = await product.addLink(`race-${name}`, '0', { access: 'signed-in' })
    const beside = url.replace(config.url, second.gatewayUrl)
    const { signer } = await signingIn(await newBuyer(chains, chain, 0n))
    const header = await headerFor(chain, signer, url)
    const before = api.calls.length
    const statuses = await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const response = await fetch(`${i % 2 === 0 ? url : beside}?n=${i}`, {
          headers: { 'sign-in-with-x': header },
        })
        await response.text()
        return response.status
      }),
    )
    t.strictSame(statuses.toSorted(), [200, ...new Array(49).fill(402)])
    t.equal(api.calls.length - before, 1)
  })
}
