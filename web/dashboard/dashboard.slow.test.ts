import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import t, { type Test } from 'tap'
import { signInBrowser } from '../../test/helpers/admin-api/browser.ts'
import { readCorpus } from '../../test/helpers/corpora.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fillStore, plainTexts, type Texts } from '../../test/helpers/web/dashboard/fullStore.ts'
import {
  openDashboard,
  openTransport,
  sellersWallet,
} from '../../test/helpers/web/dashboard/openDashboard.ts'
import {
  fitsItsWidth,
  type openTab,
  type Site,
  seriousFindings,
  startSite,
} from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)

/** A store with data in every view, dated from now, because browsers have no other clock. */
async function fullStore(t: Test, texts: Texts = plainTexts) {
  const site = await startSite(t)
  site.clock.nowMs = Date.now()
  const seller = sellersWallet()
  return { site, seller, store: await fillStore(site, seller.wallet, texts) }
}

type Shop = Pick<Awaited<ReturnType<typeof fullStore>>, 'site' | 'seller'>

const viewsOf = (store: Awaited<ReturnType<typeof fillStore>>): readonly string[] => [
  ...[
    '',
    '/links',
    `/links/${store.weather}`,
    `/links/${store.maps}`,
    '/links/new',
    '/links/import',
    '/purchases',
  ],
  ...[
    `/purchases/${store.refundDue}`,
    `/purchases/${store.paidBack}`,
    '/sessions',
    '/sessions/new',
    '/reviews',
    '/fees',
  ],
  ...['/webhooks', `/webhooks/${store.hookId}`, '/profile', '/developer', '/nowhere'],
]

async function show(page: Awaited<ReturnType<typeof openTab>>['page'], site: Site, view: string) {
  await page.goto(`${site.url}/dashboard${view}`)
  await page.getByRole('button', { name: 'Sign out' }).first().waitFor()
  await page.locator('.skeleton').first().waitFor({ state: 'detached' })
}

function tests(browser: Browser): void {
  const signedIn = (t: Test, { site, seller }: Shop, options?: BrowserContextOptions) =>
    openDashboard(t, browser, `${site.url}/dashboard`, seller.inBrowser, options)

  t.test(
    'every view, wide and narrow, light and dark: it fits, axe finds nothing serious, no rule is broken',
    async (t) => {
      const { site, seller, store } = await fullStore(t)
      for (const colorScheme of ['light', 'dark'] as const) {
        for (const width of [360, 1280]) {
          const options = { colorScheme, viewport: { width, height: 800 } }
          const { page, problems, elsewhere } = await signedIn(t, { site, seller }, options)
          for (const view of viewsOf(store)) {
            await show(page, site, view)
            const about = `${view || '/'} ${colorScheme} at ${width}`
            t.ok(await fitsItsWidth(page), `${about} fits`)
            t.strictSame(await seriousFindings(page), [], `${about}: what axe finds`)
          }
          t.strictSame([problems, elsewhere], [[], []])
        }
      }
    },
  )

  t.test(
    'naughty texts everywhere: no script runs, nothing is asked elsewhere, no rule is broken, it fits',
    async (t) => {
      const naughty = (readCorpus('blns.json') ?? [])
        .filter((text) => /<|script|onerror/i.test(text))
        .slice(0, 40)
      const attack = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
      const longWord = 'W'.repeat(150)
      for (const text of [attack, `\u0645\u062a\u062c\u0631 ${longWord}`, naughty.join(' ').slice(0, 180)]) {
        const texts: Texts = {
          title: text.slice(0, 200),
          description: text.slice(0, 500),
          displayName: text.slice(0, 50),
          bio: text.slice(0, 160),
          comment: text.slice(0, 500),
          detail: text,
        }
        const { site, seller, store } = await fullStore(t, texts)
        const options = { viewport: { width: 360, height: 800 } }
        const { page, problems, elsewhere } = await signedIn(t, { site, seller }, options)
        for (const view of viewsOf(store)) {
          await show(page, site, view)
          t.notMatch(await page.title(), /owned/)
          t.ok(await fitsItsWidth(page), `${view} fits`)
        }
        t.strictSame([problems, elsewhere], [[], []])
      }
    },
  )

  t.test(
    'a wallet without a store signs once, opens one, makes a link and sees what the check said',
    async (t) => {
      const site = await startSite(t)
      site.clock.nowMs = Date.now()
      const { inBrowser } = sellersWallet()
      const { page, problems } = await openTransport(t, browser, `${site.url}/dashboard/links/new`, [
        inBrowser,
      ])
      await page.getByRole('button', { name: /Base test wallet/ }).click()
      await page.getByLabel('Username').fill('weather_shop')
      await page.getByRole('button', { name: 'Open the store' }).click()
      await page.getByRole('heading', { name: 'New link' }).waitFor()
      t.equal(inBrowser.mood.requests.filter((method) => method === 'personal_sign').length, 1)

      await page.getByLabel('Title').fill('Weather')
      await page
        .getByLabel('Address of your API')
        .fill(`${await site.seller((_, response) => response.writeHead(503).end())}`)
      await page.getByRole('button', { name: 'Create link' }).click()
      await page.getByRole('alert').first().waitFor()
      t.match(await page.getByRole('alert').first().textContent(), /503|answer/i)
      await page.getByLabel('Address of your API').fill(await site.seller())
      await page.getByRole('button', { name: 'Create link' }).click()
      await page.getByRole('heading', { name: 'Your link is ready' }).waitFor()
      await page.getByRole('link', { name: 'Go to the link' }).click()
      await page.getByRole('button', { name: 'Test call' }).click()
      await page.getByText('The API is working').waitFor()
      t.strictSame(problems, [])
    },
  )

  t.test('a keyboard is enough: sign in, find the way around, change the profile', async (t) => {
    const { site, seller } = await fullStore(t)
    const { page } = await openTransport(t, browser, `${site.url}/dashboard`, [seller.inBrowser])
    const wallet = page.getByRole('button', { name: /Base test wallet/ })
    await wallet.waitFor()
    const tabTo = async (isThere: () => Promise<boolean>) => {
      for (let i = 0; i < 60 && !(await isThere()); i++) await page.keyboard.press('Tab')
      t.ok(await isThere(), 'it is reached')
    }
    const hasFocus = (name: string) => () =>
      page.evaluate(
        `document.activeElement.textContent.trim() === ${JSON.stringify(name)}`,
      ) as Promise<boolean>
    await tabTo(() => page.evaluate(`document.activeElement.matches('button.shell-wallet')`))
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    await tabTo(hasFocus('Profile'))
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Profile', level: 1 }).waitFor()
    t.equal(await page.evaluate('document.activeElement.id'), 'main', 'what is new is read from its top')
    await page.getByLabel('About').focus()
    await page.keyboard.type(' Always.')
    await tabTo(hasFocus('Save'))
    await page.keyboard.press('Enter')
    await page.getByText('Saved', { exact: true }).waitFor()
  })

  t.test(
    'another site changes nothing: neither with a form nor with fetch, though the browser is signed in',
    async (t) => {
      const { site, seller, store } = await fullStore(t)
      const { page } = await signedIn(t, { site, seller })
      const server = createServer((_, response) =>
        response.writeHead(200, { 'content-type': 'text/html' }).end('<p>hello'),
      )
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      t.teardown(() => void server.close(server.closeAllConnections()))
      // On the same host with another port: the same site, so SameSite alone does not protect.
      const foreign = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
      const other = await page.context().newPage()
      await other.goto(foreign)
      const target = `${site.url}/api/v1/links/${store.weather}`
      const statusOf = (options: string) =>
        other.evaluate(
          `fetch(${JSON.stringify(target)}, { credentials: 'include', ...${options} }).then((a) => a.status, () => 'refused')`,
        )
      t.equal(await statusOf(`{ method: 'DELETE' }`), 'refused')
      t.equal(
        await statusOf(
          `{ method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"title":"owned"}' }`,
        ),
        'refused',
      )
      t.equal(await statusOf('{}'), 'refused', 'nor is anything read')
      await other.evaluate(`(() => {
      const form = document.createElement('form')
      form.method = 'POST'
      form.action = ${JSON.stringify(`${site.url}/api/v1/links/${store.weather}/test`)}
      document.body.append(form)
      form.submit()
    })()`)
      await other.waitForURL(/\/test$/)
      t.match(await other.textContent('body'), /FOREIGN_ORIGIN/)
      const link = await site.db.links.find(store.weather)
      t.match(link, { isActive: true, title: plainTexts.title })
      await page.goto(`${site.url}/dashboard/links`)
      await page.getByRole('button', { name: 'Sign out' }).waitFor()
    },
  )

  t.test('a session that is ended elsewhere leads to the door with the next press', async (t) => {
    const { site, seller } = await fullStore(t)
    const { page } = await signedIn(t, { site, seller })
    const [store] = [await site.db.stores.byWallet('base', seller.wallet.address.toLowerCase())]
    for (const { id } of await site.db.browserSessions.ofHolder(store!.id, site.clock.nowMs))
      await site.db.browserSessions.end(store!.id, id)
    // A read by the page itself may have led here before the press.
    const atTheDoor = page.getByRole('heading', { name: 'Sign in to your store' }).waitFor()
    await Promise.race([page.getByRole('link', { name: 'Fees' }).click(), atTheDoor])
    await atTheDoor
  })

  t.test(
    'another tab signs in to another store: nothing of the two is mixed, the page becomes that store’s',
    async (t) => {
      const { site, seller } = await fullStore(t)
      const other = sellersWallet()
      const names = { ...plainTexts, displayName: 'Other shop', title: 'Other weather' }
      await fillStore(site, other.wallet, names)
      const { page, problems } = await signedIn(t, { site, seller })
      const { cookie, response: answer } = await signInBrowser(site, other.wallet, { origin: site.url })
      const [name, value] = cookie.split('=') as [string, string]
      await page.context().addCookies([{ name, value, url: site.url, httpOnly: true, sameSite: 'Strict' }])
      await page.getByRole('link', { name: 'Links', exact: true }).click()
      await page.getByRole('link', { name: 'Other weather' }).click()
      await page.getByText(`/api/link/${answer.body.data.store.username}/weather`).waitFor()
      t.match(await page.textContent('.shell-owner'), /Other shop/)
      await page.getByLabel('Title').fill('Better weather')
      await page.getByRole('button', { name: 'Save' }).click()
      await page.getByText('Saved', { exact: true }).waitFor()
      t.strictSame(problems, [])
    },
  )

  t.test('a link that gets a webhook shows its secret, which nobody tells again', async (t) => {
    const { site, seller, store } = await fullStore(t)
    const { page } = await signedIn(t, { site, seller })
    await show(page, site, `/links/${store.weather}`)
    await page.getByText('More', { exact: true }).click()
    await page.getByLabel('Webhook', { exact: true }).fill('https://shop.example/sold')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText(/^whsec_/).waitFor()
    await page.getByText('Saved', { exact: true }).waitFor()
    t.match(await page.textContent('main'), /only once/)
  })

  t.test('a dialog stays until the secret that it made is there, whatever is pressed', async (t) => {
    const { site, seller } = await fullStore(t)
    const { page, problems } = await openDashboard(t, browser, `${site.url}/dashboard`, seller.inBrowser)
    const making = async (path: string, press: () => Promise<unknown>, secret: RegExp) => {
      const requested = Promise.withResolvers<void>()
      const answered = Promise.withResolvers<void>()
      await page.route(path, async (route) => {
        if (route.request().method() !== 'POST') return route.continue()
        requested.resolve()
        await answered.promise
        await route.continue()
      })
      await press()
      await requested.promise
      for (let i = 0; i < 3; i++) await page.keyboard.press('Escape')
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click({ force: true })
      answered.resolve()
      await page.getByRole('dialog').getByText(secret).waitFor()
      await page.getByRole('button', { name: 'I have stored it' }).click()
      await page.getByRole('dialog').waitFor({ state: 'hidden' })
    }
    await show(page, site, '/webhooks')
    await page.getByRole('button', { name: 'Add a webhook' }).first().click()
    await page.getByLabel('Address', { exact: true }).fill('https://shop.example/hooks')
    const add = () => page.getByRole('button', { name: 'Add', exact: true }).click()
    await making('**/api/v1/webhooks', add, /^whsec_/)
    await show(page, site, '/developer')
    await page.getByRole('button', { name: 'New key' }).click()
    // Before the dialog has the focus, Enter would press the button that opens it.
    await page.locator('dialog :focus').waitFor()
    await making('**/api/agent/keys', () => page.keyboard.press('Enter'), /^tg_live_/)
    t.strictSame(problems, [])
  })

  t.test('nobody is told to be signed out while the session lives', async (t) => {
    const { site, seller } = await fullStore(t)
    const { page } = await signedIn(t, { site, seller })
    const signOut = page.getByRole('button', { name: 'Sign out' }).first()
    await page.route('**/api/dashboard/session', (route) => route.abort())
    await signOut.click()
    await page.getByText(/You are still signed in/).waitFor()
    await page.unroute('**/api/dashboard/session')
    await signOut.click()
    await page.getByRole('heading', { name: 'Sign in to your store' }).waitFor()
  })
}

if (chromium !== undefined) tests(chromium)
