import type { BrowserContextOptions, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { newSolanaSecret } from '../../localnet/demoWallets.ts'
import { termsOf } from '../../test/helpers/admin-api/startAdmin.ts'
import { readCorpus } from '../../test/helpers/corpora.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fitsItsWidth, openTab, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'
import { giveWallets, solanaTestWallet } from '../../test/helpers/web/wallets/testWallets.ts'

const browser = await startBrowser(t)

/** A service with a payment session, and its checkout in a tab. */
async function setUp(
  t: Test,
  body: object = {},
  options: BrowserContextOptions = {},
  overrides: Parameters<typeof startSite>[1] = {},
) {
  const site = await startSite(t, overrides)
  site.clock.nowMs = Date.now()
  const { key } = await site.store()
  const open = async (more: object = {}) => {
    const sent = {
      amount: '49.99',
      title: 'Team plan, one month',
      description: 'Ten seats',
      ...body,
      ...more,
    }
    const made = await site.call('POST', '/api/v1/payments', { key, body: sent })
    return made.body.data as { id: string; checkoutUrl: string; clientSecret: string } | undefined
  }
  const session = (await open())!
  const tab = await openTab(t, browser!, session.checkoutUrl, options)
  const cancel = () => site.call('POST', `/api/v1/payments/${session.id}/cancel`, { key })
  return { site, session, cancel, open, ...tab }
}

/** The store accepts payments on Base and on Solana. */
const onTwoNetworks: Parameters<typeof startSite>[1] = {
  assets: [...builtInAssets],
  termsOf: (link) =>
    termsOf(link).flatMap((terms) => {
      const both = ['eip155:84532', 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1']
      return both.map((network) => {
        const { address } = builtInAssets.find((asset) => asset.network === network)!
        return { ...terms, network, asset: address } as typeof terms
      })
    }),
}

const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 2, exact: true })

async function screens() {
  await t.test(
    'every screen fits a phone and a desk, in light and in dark, and axe finds nothing serious',
    async (t) => {
      for (const width of [360, 1280]) {
        for (const colorScheme of ['light', 'dark'] as const) {
          const { page, problems, elsewhere, cancel } = await setUp(
            t,
            {},
            { viewport: { width, height: 800 }, colorScheme },
          )
          const fitsScreen = async (what: string) => {
            t.strictSame(await seriousFindings(page), [], `${what} at ${width}, ${colorScheme}`)
            t.ok(await fitsItsWidth(page), `${what} fits ${width}`)
          }
          await page.getByText('No wallet for Base Sepolia in this browser').waitFor()
          await fitsScreen('without a wallet')
          for (const selected of ['Phone', 'Terminal']) {
            await page.getByText(selected, { exact: true }).click()
            await fitsScreen(selected)
          }
          await cancel()
          await heading(page, 'Canceled').waitFor()
          await fitsScreen('canceled')
          t.strictSame([problems, elsewhere], [[], []])
        }
      }
    },
  )

  await t.test('who has no mouse gets everywhere, and what is new has the focus', async (t) => {
    const { page } = await setUp(t)
    await page.getByText('No wallet for').waitFor()
    await page.keyboard.press('Tab')
    t.equal(await page.evaluate('document.activeElement.type'), 'radio')
    await page.keyboard.press('ArrowRight')
    await page.getByRole('img', { name: /another device/ }).waitFor()
    await page.keyboard.press('ArrowRight')
    await page.getByText('tollgate pay -X POST').waitFor()
    for (let i = 0; i < 6; i++) {
      await page.keyboard.press('Tab')
      if ((await page.evaluate('document.activeElement.textContent')) === 'Cancel payment') break
    }
    await page.keyboard.press('Enter')
    await heading(page, 'Canceled').waitFor()
    await page.locator('.checkout-screen h2:focus').waitFor()
    t.match(await page.title(), /^Canceled/)
  })

  await t.test('the checkout opens on the network of the wallet that is there', async (t) => {
    const { page, session } = await setUp(t, {}, {}, onTwoNetworks)
    const network = (name: string) => page.getByRole('radio', { name })
    await page.getByText('No wallet for Base Sepolia').waitFor()
    t.ok(await network('Base Sepolia').isChecked(), 'without a wallet on the first one')
    await giveWallets(page, [solanaTestWallet(newSolanaSecret())])
    await page.goto(session.checkoutUrl)
    await page.getByRole('button', { name: 'Pay 49.99 USDC with Solana test wallet' }).waitFor()
    t.ok(await network('Solana Devnet').isChecked())
    await network('Base Sepolia').check()
    await page.getByText('No wallet for Base Sepolia').waitFor()
  })

  await t.test('what is pressed before the script has come is not lost', async (t) => {
    const { page, open, problems } = await setUp(t, {}, {}, onTwoNetworks)
    let letScriptsIn = () => {}
    const hold = async () => {
      const let_ = new Promise<void>((resolve) => {
        letScriptsIn = resolve
      })
      await page.unroute('**/*.js')
      await page.route('**/*.js', async (route) => {
        await let_
        await route.continue()
      })
      await page.goto((await open())!.checkoutUrl, { waitUntil: 'commit' })
      await page.getByText('Cancel payment').waitFor()
    }
    await hold()
    await page.getByRole('radio', { name: 'Solana Devnet' }).check()
    await page.getByText('Phone', { exact: true }).click()
    letScriptsIn()
    await page.locator('[data-island="checkout"][data-awake]').waitFor({ state: 'attached' })
    await page.getByRole('img', { name: /another device/ }).waitFor()
    await page.getByText('Wallet', { exact: true }).click()
    await page.getByText('No wallet for Solana Devnet').waitFor()

    await hold()
    await page.getByText('Terminal', { exact: true }).click()
    t.equal(await page.getByRole('button', { name: /^Copy/ }).count(), 0, 'no button without its script')
    await page.getByRole('button', { name: 'Cancel payment' }).click({ noWaitAfter: true })
    letScriptsIn()
    await heading(page, 'Canceled').waitFor()
    t.strictSame(problems, [])
  })

  await t.test('time that runs out, and a seller who cancels, are seen at once', async (t) => {
    const { page, site } = await setUp(t, { cancelUrl: 'https://shop.test/cart' })
    await page.getByText('No wallet for').waitFor()
    site.clock.nowMs += 31 * 60_000
    await heading(page, 'This checkout has expired').waitFor()
    t.equal(await page.getByRole('link', { name: /^Back to/ }).getAttribute('href'), 'https://shop.test/cart')
    const other = await setUp(t)
    await other.page.getByText('No wallet for').waitFor()
    await other.cancel()
    await heading(other.page, 'Canceled').waitFor()
  })

  await t.test('where server-sent events do not come through, the page asks', async (t) => {
    const { page, cancel } = await setUp(t)
    await page.route('**/events?**', (route) => route.abort())
    await page.reload()
    await page.getByText('No wallet for').waitFor()
    await cancel()
    await heading(page, 'Canceled').waitFor()
  })

  await t.test(
    'the secret is in the address bar of no page that is shown, and a page that is loaded again has it',
    async (t) => {
      const { page, session } = await setUp(t)
      await page.getByText('No wallet for').waitFor()
      t.equal(new URL(page.url()).search, '')
      await page.reload()
      await page.getByText('No wallet for').waitFor()
      t.equal(new URL(page.url()).search, '')
      const stranger = await page.context().newPage()
      await stranger.goto(session.checkoutUrl.split('?')[0]!)
      await stranger.getByText('Open the checkout from the shop').waitFor()
    },
  )

  await t.test(
    'without JavaScript the page says what is paid, to whom, and how to pay from a terminal',
    async (t) => {
      const { page } = await setUp(t, {}, { javaScriptEnabled: false })
      for (const words of ['Team plan, one month', '49.99', 'Base Sepolia'])
        await page.getByText(words).first().waitFor()
      await page.getByText('Terminal', { exact: true }).click()
      await page.getByText('tollgate pay -X POST').waitFor()
      t.ok(await page.getByRole('heading', { level: 1 }).isVisible())
    },
  )

  await t.test(
    'whatever a seller calls a thing, no script runs, and no rule of the policy is broken',
    async (t) => {
      const corpus = (readCorpus('blns.json') ?? []).filter((one) => /[<>"'`&]/.test(one)).slice(0, 25)
      const titles = [
        ...[
          '</script><script>window.ran = 1</script>',
          '"><img src=x onerror="window.ran=1">',
          "';window.ran=1//",
        ],
        ...['x'.repeat(200), 'قهوة عربية بالهيل والزعفران', '🍵'.repeat(60)],
        ...corpus,
      ]
      const { page, open, problems, elsewhere } = await setUp(
        t,
        {},
        { viewport: { width: 360, height: 700 } },
      )
      let shown = 0
      for (const title of titles) {
        const session = await open({ title, description: title.slice(0, 300) })
        if (session === undefined) continue
        shown++
        await page.goto(session.checkoutUrl)
        await page.locator('[data-island="checkout"][data-awake]').waitFor({ state: 'attached' })
        t.equal(await page.evaluate('window.ran'), undefined, title)
        t.ok(await fitsItsWidth(page), title)
        t.equal(await page.getByRole('heading', { level: 1 }).textContent(), title.trim())
      }
      t.ok(shown >= 6, `${shown} titles`)
      t.strictSame([problems, elsewhere], [[], []])
    },
  )

  await t.test('a browser that keeps nothing can pay all the same', async (t) => {
    const { page, problems, open } = await setUp(t)
    await page.addInitScript(
      "Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('no', 'SecurityError') } })",
    )
    await page.goto((await open())!.checkoutUrl)
    await page.getByText('No wallet for').waitFor()
    t.notMatch(page.url(), /cs=/)
    t.strictSame(problems, [])
  })

  await t.test('the smallest and the largest amount stand on one line of a phone', async (t) => {
    const { page, open } = await setUp(t, {}, { viewport: { width: 360, height: 700 } })
    for (const amount of ['0.000001', '999999999999.999999']) {
      await page.goto((await open({ amount }))!.checkoutUrl)
      await page.getByText('No wallet for').waitFor()
      t.ok(await fitsItsWidth(page), amount)
      const { height } = (await page.locator('.checkout-sum').boundingBox())!
      t.ok(height < 60, `${amount}: ${height} px`)
      const pixels = (place: string) =>
        page.locator(place).evaluate((element) => Number.parseFloat(getComputedStyle(element).fontSize))
      t.ok(
        (await pixels('.checkout-sum .amount')) > (await pixels('.facts .amount')),
        'larger than any other',
      )
      const rightOf = async (place: string) => {
        const { x, width } = (await page.locator(place).first().boundingBox())!
        return x + width
      }
      t.ok((await rightOf('.facts .amount')) <= (await rightOf('.checkout-do')), 'and stands in its card')
      const shown = await page.locator('.checkout-sum .amount').textContent()
      t.equal(await page.locator('.facts .amount').textContent(), shown, 'what is signed reads the same')
    }
  })
}

if (browser !== undefined) await screens()
