import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { eventually } from '../../test/e2e/helpers/eventually.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { openTab, startSite } from '../../test/helpers/web/openSite.ts'
import { startShop } from '../../test/helpers/web/widget/startShop.ts'

const browser = await startBrowser(t)

/** A shop with its own payment session, and its page in a tab. */
async function setUp(t: Test, query = '', body: object = {}) {
  const site = await startSite(t)
  site.clock.nowMs = Date.now()
  const shop = await startShop(t, site.url)
  const { key } = await site.store()
  const made = await site.call('POST', '/api/v1/payments', {
    key,
    body: { amount: '4.20', title: 'Tea', allowedOrigin: shop.url, ...body },
  })
  const session = made.body.data as { id: string; checkoutUrl: string; clientSecret: string }
  const { page } = await openTab(
    t,
    browser!,
    `${shop.url}/?url=${encodeURIComponent(session.checkoutUrl)}${query}`,
  )
  const openPopup = async (): Promise<Page> => {
    const [popup] = await Promise.all([page.waitForEvent('popup'), page.click('#buy')])
    return popup
  }
  const cancel = () => site.call('POST', `/api/v1/payments/${session.id}/cancel?cs=${session.clientSecret}`)
  const received = () => shop.received(page)
  /** All messages that the page received, once there are this many. */
  const hears = (count: number, timeoutMs?: number) =>
    eventually(async () => {
      const all = await received()
      return all.length >= count ? all : undefined
    }, timeoutMs)
  return { site, shop, page, session, openPopup, cancel, received, hears }
}

const cancelIn = (popup: Page) => popup.getByRole('button', { name: 'Cancel payment' }).click()

async function widgetTests() {
  await t.test('a buyer who cancels in the popup is told of once, and then that it is closed', async (t) => {
    const { openPopup, hears, session } = await setUp(t)
    const popup = await openPopup()
    await popup.getByText('Base Sepolia').first().waitFor()
    t.notMatch(popup.url(), /cs=/, 'the secret has left the address bar')
    t.match(popup.url(), session.id)
    await cancelIn(popup)
    t.strictSame(await hears(2), [['cancel'], ['close']])
    t.ok(popup.isClosed(), 'the popup closes itself')
  })

  await t.test('a popup that is closed by hand, or by close(), is closed and nothing more', async (t) => {
    const { openPopup, received, hears, page } = await setUp(t)
    const popup = await openPopup()
    await popup.getByText('Cancel payment').waitFor()
    await popup.close()
    t.strictSame(await hears(1), [['close']])
    const second = await openPopup()
    await second.getByText('Cancel payment').waitFor()
    await page.click('#away')
    t.strictSame(await hears(2), [['close'], ['close']])
    t.ok(second.isClosed())
    await page.click('#away')
    t.strictSame(await received(), [['close'], ['close']], 'closing what is closed says nothing')
  })

  await t.test('the popup opens inside the click, before its address is known', async (t) => {
    const { openPopup, hears, page, session } = await setUp(t, '&late')
    const popup = await openPopup()
    t.equal(popup.url(), 'about:blank')
    await page.evaluate(`arrive(${JSON.stringify(session.checkoutUrl)})`)
    await popup.getByText('Cancel payment').waitFor()
    await cancelIn(popup)
    t.strictSame(await hears(2), [['cancel'], ['close']])
  })

  await t.test(
    'an address that never comes, or is none of a checkout, closes the popup and says why',
    async (t) => {
      const { openPopup, hears, page } = await setUp(t, '&late')
      const popup = await openPopup()
      await page.evaluate('fail(new Error("no session"))')
      t.strictSame(await hears(2), [['close'], ['rejected', 'no session']])
      t.ok(popup.isClosed())
      for (const url of [
        'javascript:alert(1)//pay/checkout/x',
        'https://shop.test/',
        'data:text/html,/pay/checkout/x',
      ]) {
        await page.evaluate(
          `heard.length = 0; Tollgate.open({ checkoutUrl: ${JSON.stringify(url)} }).catch((error) => heard.push(['rejected', error.message]))`,
        )
        t.match(await hears(1), [['rejected', /checkoutUrl/]], url)
      }
    },
  )

  await t.test(
    'where the popup is blocked, and in the mode redirect, the page itself goes there',
    async (t) => {
      for (const how of ['blocked', 'redirect']) {
        const { page, session } = await setUp(t, how === 'redirect' ? '&mode=redirect' : '')
        if (how === 'blocked') await page.evaluate('window.open = () => null')
        await page.click('#buy')
        await page.waitForURL((url) => url.pathname.endsWith(session.id))
        await page.getByText('Cancel payment').waitFor()
      }
    },
  )

  await t.test('a popup that is cut off from the shop is followed by asking', async (t) => {
    const { openPopup, received, hears, cancel } = await setUp(t, '&coop')
    const popup = await openPopup()
    await popup.getByText('Cancel payment').waitFor()
    t.equal(await popup.evaluate('window.opener'), null, 'it is cut off')
    t.strictSame(await received(), [], 'it is not taken for closed')
    await cancel()
    t.strictSame(await hears(2, 15_000), [['cancel'], ['close']])
  })

  await t.test(
    'what is learned by asking is handed over as six fields, and nothing else of the session',
    async (t) => {
      const { openPopup, hears, page, session } = await setUp(t, '&coop')
      const known = {
        purchaseId: 'p',
        txHash: '0x1',
        chain: 'base',
        amount: '5',
        clientReferenceId: 'order-7',
      }
      const data = { id: session.id, status: 'confirmed', processing: false, ...known }
      const secrets = {
        checkoutUrl: session.checkoutUrl,
        buyerWallet: '0x2',
        metadata: { note: 'x' },
        title: 'Chair',
      }
      await page.route(`**/api/v1/payments/${session.id}?*`, (route) =>
        route.fulfill({
          headers: { 'access-control-allow-origin': '*' },
          json: { success: true, data: { ...data, ...secrets } },
        }),
      )
      const popup = await openPopup()
      await popup.getByText('Cancel payment').waitFor()
      t.strictSame(await hears(2, 15_000), [['complete', { sessionId: session.id, ...known }], ['close']])
    },
  )

  await t.test(
    'a page of another origin than the session names hears nothing, and can ask nothing',
    async (t) => {
      const { openPopup, hears, page } = await setUp(t, '', { allowedOrigin: 'https://shop.test' })
      await page.evaluate('addEventListener("message", ({ data }) => heard.push(["message", data]))')
      const popup = await openPopup()
      await popup.getByText('Cancel payment').waitFor()
      await cancelIn(popup)
      await popup
        .getByText('This payment was canceled')
        .waitFor()
        .catch(() => undefined)
      await popup.close().catch(() => undefined)
      t.strictSame(await hears(1, 20_000), [['close']])
    },
  )

  await t.test('messages of anybody but the popup and its origin change nothing', async (t) => {
    const { openPopup, received, hears, page, session } = await setUp(t)
    const popup = await openPopup()
    await popup.getByText('Cancel payment').waitFor()
    const forged = JSON.stringify({
      type: 'tollgate:complete',
      sessionId: session.id,
      completed: { sessionId: session.id },
    })
    // From the shop's own window, and from a frame with the service's own origin.
    await page.evaluate(`postMessage(${forged}, '*')`)
    await page.evaluate(
      `dispatchEvent(new MessageEvent('message', { data: ${forged}, origin: ${JSON.stringify(new URL(session.checkoutUrl).origin)}, source: window }))`,
    )
    // From the popup after it navigated away: the source is right, the origin is not.
    const elsewhere = `${page.url().split('?')[0]}?elsewhere`
    await popup.evaluate(`location.href = ${JSON.stringify(elsewhere)}`)
    await popup.waitForURL(elsewhere)
    await popup.evaluate(`opener.postMessage(${forged}, '*')`)
    t.strictSame(await received(), [])
    await page.click('#away')
    t.strictSame(await hears(1), [['close']])
  })

  await t.test('the name of the global is the shop’s choice', async (t) => {
    const { page } = await setUp(t, '&global=Till')
    t.strictSame(await page.evaluate('[typeof Till.open, typeof Till.close, typeof window.Tollgate]'), [
      'function',
      'function',
      'undefined',
    ])
  })
}

if (browser !== undefined) await widgetTests()
