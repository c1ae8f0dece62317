import t from 'tap'
import { createStore } from '../../cli/runtime/createStore.ts'
import { startApi } from './helpers/api.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'

const most = 16
const chains = await startChains(t)
const [chain] = chains.both
const product = await startProduct(
  t,
  { evm: { facilitator: { privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}', maxInFlight: most } } },
  chains,
)

t.test(
  'a seller who never answers, paid by himself, does not keep his neighbours from selling',
  async (t) => {
    const silent = await startApi(t)
    const requests: string[] = []
    silent.answerWith((request) => void requests.push(request.url!))
    const wallets = newSellerWallets(chains)
    const { apiKey } = await createStore(product.config.file, chains.env, {
      ...{ username: 'mallory', base: wallets.base, solana: wallets.solana },
    })
    const made = await fetch(`${product.url}/api/v1/links`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
      body: JSON.stringify({ title: 'Silent', url: `${silent.url}/x`, slug: 'silent', price: '0.0001' }),
    })
    const { data } = (await made.json()) as { data: { fullUrl: string } }
    const accomplice = await newBuyer(chains, chain)
    const targets = Array.from({ length: 2 * most }, (_, i) => `${data.fullUrl}?n=${i}`)
    const payments = await Promise.all(targets.map((target) => accomplice.sign(target)))
    const held = targets.map((target, i) => present(target, payments[i]!))

    const url = await product.addLink('neighbour')
    const buyer = await newBuyer(chains, chain)
    while (requests.length < most) await new Promise((resolve) => setTimeout(resolve, 10))
    // For as long as no slot is released.
    await new Promise((resolve) => setTimeout(resolve, 2_200))
    const responses = await Promise.all(
      Array.from({ length: 3 }, async (_, i) => present(`${url}?n=${i}`, await buyer.sign(`${url}?n=${i}`))),
    )
    t.strictSame(
      responses.map(({ status, body }) => [status, body.error]),
      responses.map(() => [200, undefined]),
      `${requests.length} of ${most} places are held by one store`,
    )
    await Promise.all(held)
    t.equal(await chain.balance(accomplice.address), 50_000_000n, 'it has cost him nothing')
  },
)
