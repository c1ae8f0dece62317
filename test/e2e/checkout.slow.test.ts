import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Page } from 'playwright-core'
import t from 'tap'
import { buildWeb } from '../../web/build.ts'
import { freePort } from '../helpers/freePort.ts'
import { startBrowser } from '../helpers/vault/browser.ts'
import { buyersTab, fundedWallet, newSession, payOn, readSession } from './helpers/checkout.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const browser = await startBrowser(t)

const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 2, exact: true })

async function payments() {
  await buildWeb()
  const product = await startProduct(t)
  const { both } = product.chains
  const price = 4_200_000n

  for (const chain of both) {
    await t.test(
      `${chain.name}: a buyer pays with one signature, sees the receipt, and is led back`,
      async (t) => {
        const wallet = await fundedWallet(product, chain)
        const session = await newSession(product, { successUrl: `${product.url}/healthz?thanks` })
        const { page, problems } = await buyersTab(t, browser!, [wallet])
        const before = await chain.balance(product.payTo(chain))
        await page.goto(session.checkoutUrl)
        await payOn(page, chain)
        await heading(page, 'Paid').waitFor()
        const read = await readSession(product, session.id)
        t.match(read, {
          status: 'confirmed',
          chain: chain.name === 'evm' ? 'base' : 'solana',
          buyerWallet: wallet.address,
        })
        t.equal(
          await page
            .getByRole('link', { name: /^\w{5}/ })
            .first()
            .getAttribute('href')
            .then((href) => href?.includes(read.txHash)),
          true,
        )
        t.equal((await chain.balance(product.payTo(chain))) - before, price, 'charged once, exactly')
        t.equal(await chain.balance(wallet.address), 50_000_000n - price)
        t.equal(
          wallet.mood.requests.filter((method) => /^(eth_sign|sign)/.test(method)).length,
          1,
          'one signature',
        )
        t.notOk(wallet.mood.requests.includes('eth_sendTransaction'))
        await page.waitForURL(`${product.url}/healthz?thanks`)
        await page.clock.install()
        await page.goBack()
        await heading(page, 'Paid').waitFor()
        await page.clock.runFor(60_000)
        t.match(page.url(), session.id, 'who comes back to the receipt may read it')
        t.strictSame(problems, [])
      },
    )
  }

  await t.test('what was bought of a link is reviewed on its receipt, also after a reload', async (t) => {
    const chain = both[0]!
    await product.addLink('green-tea', '0.50', { isPublic: true })
    const headers = { authorization: `Bearer ${product.store.apiKey}` }
    const read = await fetch(`${product.url}/api/v1/links`, { headers })
    const listed = (await read.json()) as { data: { links: { id: string }[] } }
    const linkId = listed.data.links[0]!.id
    const session = await newSession(product, { amount: undefined, title: undefined, linkId })
    const { page, problems } = await buyersTab(t, browser!, [await fundedWallet(product, chain)])
    await page.goto(session.checkoutUrl)
    await payOn(page, chain)
    await heading(page, 'Paid').waitFor()
    await page.getByLabel('Bad').check()
    await page.reload()
    await page.getByLabel('Bad').check()
    await page.getByLabel(/^What should other buyers know/).fill('Too bitter.')
    await page.getByRole('button', { name: 'Post review' }).click()
    await page.getByText('Thank you').waitFor()
    const reviews = await fetch(`${product.url}/api/reviews?username=alice&slug=green-tea`)
    t.match(await reviews.json(), { reviews: [{ positive: false, comment: 'Too bitter.' }] })
    await page.reload()
    await heading(page, 'Paid').waitFor()
    t.equal(await page.getByRole('button', { name: 'Post review' }).count(), 0)
    t.strictSame(problems, [])
  })

  for (const chain of both) {
    await t.test(
      `${chain.name}: the example shop's popup is paid, its page and its webhook hear of it`,
      async (t) => {
        const port = await freePort()
        const shopUrl = `http://127.0.0.1:${port}`
        const made = await fetch(`${product.url}/api/v1/webhooks`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${product.store.apiKey}` },
          body: JSON.stringify({ url: `${shopUrl}/paid`, events: ['payment.confirmed'] }),
        })
        const { data } = (await made.json()) as { data: { secret: string } }
        const shop = spawn(process.execPath, [join(import.meta.dirname, '../../examples/shop/index.ts')], {
          env: {
            PATH: process.env['PATH'],
            TOLLGATE_URL: product.url,
            API_KEY: product.store.apiKey,
            WEBHOOK_SECRET: data.secret,
            PORT: String(port),
          },
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        t.teardown(() => void shop.kill())
        for await (const line of createInterface(shop.stdout)) if (line === shopUrl) break

        const { page, problems } = await buyersTab(t, browser!, [await fundedWallet(product, chain)])
        await page.goto(shopUrl)
        // What the shop's page is told, as it is told.
        await page.evaluate(
          'window.told = []; const { open } = Tollgate; Tollgate.open = (options) => open({ ...options, onComplete: (done) => { told.push(done); options.onComplete(done) } })',
        )
        const [popup] = await Promise.all([page.waitForEvent('popup'), page.click('#buy')])
        await popup.waitForURL(/\/pay\/checkout\//)
        await payOn(popup, chain)
        await heading(popup, 'Paid').waitFor()
        await page.getByText('Thank you! Order').waitFor()
        const [notified, ...more] = (await page.evaluate('told')) as Record<string, string>[]
        t.strictSame(more, [], 'once')
        const read = await readSession(product, notified!['sessionId']!)
        t.strictSame(notified, {
          sessionId: read.id,
          purchaseId: read.purchaseId,
          txHash: read.txHash,
          chain: read.chain,
          amount: read.amount,
          clientReferenceId: read.clientReferenceId,
        })
        const order = await eventually(async () => {
          const kept = (await (await fetch(`${shopUrl}/orders/${read.clientReferenceId}`)).json()) as {
            paidBy: string | null
          }
          return kept.paidBy === null ? undefined : kept
        })
        t.equal(order.paidBy, read.purchaseId, 'the signed webhook came and verified')
        // A click that waits for its end does not see it: the window is gone by then.
        await Promise.all([
          popup.waitForEvent('close'),
          popup
            .getByRole('button', { name: 'Close this window' })
            .evaluate((button) => setTimeout(() => button.click())),
        ])
        await page.locator('#says[data-closed]').waitFor()
        t.strictSame(problems, [])
      },
    )
  }

  await t.test(
    'a wallet that never answers holds nobody; what it answers later changes nothing',
    async (t) => {
      const session = await newSession(product)
      const { page, problems } = await buyersTab(t, browser!, [])
      await page.addInitScript(`
      const answers = []
      window.answer = (given) => answers.shift()(given)
      const provider = { request: () => new Promise((resolve) => answers.push(resolve)) }
      const detail = Object.freeze({ info: { uuid: 'x', name: 'Sleeper', rdns: 'x' }, provider })
      const tell = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail }))
      addEventListener('eip6963:requestProvider', tell)`)
      await page.goto(session.checkoutUrl)
      const pay = page.getByRole('button', { name: /^Pay .* with Sleeper$/ })
      await pay.click()
      await heading(page, 'Connect Sleeper').waitFor()
      await page.getByRole('button', { name: 'Choose another wallet' }).click()
      await pay.click()
      await heading(page, 'Connect Sleeper').waitFor()
      // The first question, which was left, is answered; then the second, by a no.
      await page.evaluate('answer([])')
      await page.getByText('Choose in your wallet which account').waitFor()
      t.ok(await heading(page, 'Connect Sleeper').isVisible())
      await page.evaluate('answer([])')
      await heading(page, 'You declined in your wallet').waitFor()
      t.strictSame(problems, [])
    },
  )

  await t.test('two windows that pay one session at once: one charge, and both know', async (t) => {
    for (const chain of both) {
      const wallets = await Promise.all([fundedWallet(product, chain), fundedWallet(product, chain)])
      const session = await newSession(product)
      const before = await chain.balance(product.payTo(chain))
      const tabs = await Promise.all(wallets.map((wallet) => buyersTab(t, browser!, [wallet])))
      await Promise.all(tabs.map(({ page }) => page.goto(session.checkoutUrl)))
      await Promise.all(tabs.map(({ page }) => payOn(page, chain)))
      await Promise.all(
        tabs.map(({ page }) => page.getByRole('heading', { name: /^Paid/, level: 2 }).waitFor()),
      )
      t.equal((await chain.balance(product.payTo(chain))) - before, price, `${chain.name}: one charge`)
      const left = await Promise.all(wallets.map(({ address }) => chain.balance(address)))
      t.strictSame(left.sort(), [50_000_000n - price, 50_000_000n].sort())
      const titles = await Promise.all(tabs.map(({ page }) => page.locator('h2').first().textContent()))
      t.strictSame(titles.sort(), ['Paid', 'Paid in another window'])
    }
  })

  await t.test('what stops a payment has its own screen, and the next try pays', async (t) => {
    for (const chain of both) {
      const wallet = await fundedWallet(product, chain, price - 1n)
      const session = await newSession(product)
      const { page, problems } = await buyersTab(t, browser!, [wallet])
      await page.goto(session.checkoutUrl)
      const stops = async (title: string) => {
        await payOn(page, chain)
        await heading(page, title).waitFor()
        // It has the focus, so the buyer does not have to search for it.
        await page.locator('.checkout-screen h2:focus').waitFor()
        await page.getByRole('button', { name: /^(Try again|Choose again)$/ }).click()
      }
      const [connect, sign] =
        chain.name === 'evm'
          ? ['eth_requestAccounts', 'eth_signTypedData_v4']
          : ['connect', 'signTransaction']
      wallet.mood.declines.add(connect!)
      await stops('You declined in your wallet')
      wallet.mood.declines.clear()
      if (chain.name === 'evm') {
        wallet.mood.declines.add('wallet_switchEthereumChain')
        await stops('Your wallet is on another network')
        wallet.mood.declines.clear()
      }
      await stops('Not enough in this wallet')
      if (chain.name === 'evm') await product.chains.evm.mintUsdc(wallet.address as `0x${string}`, 1n)
      else product.chains.solana.mintUsdc(wallet.address, 1n)
      wallet.mood.declines.add(sign!)
      await stops('You declined in your wallet')
      wallet.mood.declines.clear()
      t.match(await readSession(product, session.id), { status: 'open', txHash: null })
      await payOn(page, chain)
      await heading(page, 'Paid').waitFor()
      t.equal(await chain.balance(wallet.address), 0n)
      t.strictSame(problems, [])
    }
  })

  await t.test('a page that is loaded again while the chain is slow goes on to the receipt', async (t) => {
    const [chain] = both
    const wallet = await fundedWallet(product, chain)
    const session = await newSession(product)
    const { page } = await buyersTab(t, browser!, [wallet])
    await page.goto(session.checkoutUrl)
    await chain.hold()
    await payOn(page, chain)
    await eventually(async () => ((await readSession(product, session.id)).processing ? true : undefined))
    await page.reload()
    await heading(page, 'Confirming').waitFor()
    t.notMatch(page.url(), /cs=/)
    t.equal(await page.getByRole('button', { name: /^Pay / }).count(), 0, 'nobody pays twice')
    await chain.release()
    await page.getByRole('heading', { name: /^Paid/, level: 2 }).waitFor()
    t.equal(await chain.balance(wallet.address), 50_000_000n - price)
  })
}

if (browser !== undefined) await payments()
