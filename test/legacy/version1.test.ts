import t from 'tap'
import { type Buyer, newBuyer, read } from '../e2e/helpers/buyers.ts'
import type { Chain } from '../e2e/helpers/chains.ts'
import { startProduct } from '../e2e/helpers/product.ts'
import { createSigner, wrapFetchWithPayment } from './x402Fetch.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const url = await product.addLink('weather')

/** The client as its users set it up: a private key, and for Solana the node to ask. */
async function clientOf({ privateKey }: Buyer, chain: Chain): Promise<typeof fetch> {
  if (chain.name === 'evm') {
    return wrapFetchWithPayment(fetch, await createSigner('base-sepolia', privateKey))
  }
  const signer = await createSigner('solana-devnet', privateKey)
  return wrapFetchWithPayment(fetch, signer, undefined, undefined, {
    svmConfig: { rpcUrl: chains.solana.rpcUrl },
  })
}

for (const chain of chains.both) {
  t.test(`x402-fetch (version 1) buys a call on ${chain.name}, and the chain shows it`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const pay = await clientOf(buyer, chain)
    const [before, called] = [await chain.balance(payTo(chain)), api.calls.length]
    const bought = await read(await pay(`${url}?n=v1-${chain.name}&x402Version=1`))

    t.equal(bought.status, 200, bought.text)
    t.match(bought.body, { data: { target: /\/weather\?n=/ }, _svc: { purchaseId: String } })
    t.notMatch(bought.text, 'x402Version', 'what is meant for the gateway does not reach the seller')
    t.match(bought.receipt, { success: true, payer: buyer.address })
    t.ok((await chain.transfersTo(payTo(chain))).includes(bought.receipt!.transaction))
    t.equal((await chain.balance(payTo(chain))) - before, 10_000n, 'exactly the price came in')
    t.equal(api.calls.length - called, 1)
    const purchase = await tollgate.stack.store.purchases.find(bought.body._svc!.purchaseId)
    t.match(purchase, { txHash: bought.receipt!.transaction, amountAtomic: 10_000n })
  })
}
