import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { buildWeb } from '../../web/build.ts'
import { startBrowser } from '../helpers/vault/browser.ts'
import { evmTestWallet } from '../helpers/web/wallets/testWallets.ts'
import { newBuyer, read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { buyersTab } from './helpers/checkout.ts'
import { startProduct } from './helpers/product.ts'

const browser = await startBrowser(t)

async function invoices() {
  await buildWeb()
  const chains = await startChains(t)
  const [evm] = chains.both
  const operator = newSellerWallets(chains).base
  const product = await startProduct(t, { sections: { fees: { payTo: { base: operator } } } }, chains)

  await t.test(
    'a seller who owes fees presses the button, pays with the wallet of the browser, and owes nothing any more',
    async (t) => {
      const key = generatePrivateKey()
      const wallet = evmTestWallet(key, chains.evm.rpcUrl)
      const post = async (path: string, body: object, apiKey?: string) => {
        const response = await fetch(product.url + path, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            ...(apiKey && { authorization: `Bearer ${apiKey}` }),
          },
          body: JSON.stringify(body),
        })
        t.ok(response.ok, path)
        return ((await response.json()) as { data: Record<string, string> }).data
      }
      const identity = { address: wallet.address, chain: 'base' }
      const { message } = await post('/api/agent/auth/nonce', identity)
      const signature = await privateKeyToAccount(key).signMessage({ message: message! })
      const { apiKey } = await post('/api/agent/signup', { ...identity, message, signature })
      const link = { url: `${product.api.url}/sold`, title: 'Sold', price: '1' }
      const { fullUrl } = await post('/api/v1/links', link, apiKey)
      const buyer = await newBuyer(chains, evm)
      const bought = await read(await buyer.fetchV2(fullUrl!))
      t.equal(bought.status, 200, bought.text)
      t.equal(await evm.balance(wallet.address), 1_000_000n, 'the seller has all of it')

      const { page, problems } = await buyersTab(t, browser!, [wallet])
      const view = `${product.url}/dashboard/fees`
      await page.goto(view)
      await page.getByRole('button', { name: /Base test wallet/ }).click()
      await page.getByRole('button', { name: 'Pay fees: 0.05 USDC on Base Sepolia' }).click()
      await page.waitForURL(/\/pay\/checkout\//)
      await page.getByRole('button', { name: /^Pay .* with Base test wallet$/ }).click()
      await page.getByRole('heading', { name: 'Paid', level: 2, exact: true }).waitFor()
      await page.waitForURL(view)
      await page.getByText('You owe nothing.').waitFor()
      t.equal(await page.getByRole('button', { name: /Pay fees/ }).count(), 0)
      t.match(await page.getByRole('region', { name: 'Fee invoices' }).textContent(), /0\.05 USDC.*Paid/s)
      t.match(
        await page.getByRole('region', { name: 'Fees by month' }).textContent(),
        /0\.05 USDC0 USDC0\.05 USDC/,
      )
      t.equal(await evm.balance(operator), 50_000n, 'charged once, exactly')
      t.equal(await evm.balance(wallet.address), 950_000n)
      t.strictSame(problems, [])

      const { broken, unbalanced } = await product.tollgate.stack.store.purchases.ledgerCheck()
      t.strictSame({ broken, unbalanced }, { broken: [], unbalanced: [] })
      const wrong = (await product.doctor()).filter(({ ok }) => !ok)
      t.strictSame(wrong, [], 'the books agree with the chain')
    },
  )
}

if (browser !== undefined) await invoices()
