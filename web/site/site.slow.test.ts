import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fillMarket } from '../../test/helpers/web/market.ts'
import { fitsItsWidth, openTab, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'

const browser = await startBrowser(t)
const asPage = { extraHTTPHeaders: { accept: 'text/html' } }

/** Malicious texts that sellers could choose. */
const naughty = [
  '<script>document.title="hit"</script><img src=x onerror="document.title=1">',
  'https://pay.example/an-address-without-a-single-place-to-break-it-that-goes-on-and-on-and-on-and-on-and-on',
  'متجر البيانات العربية',
  '${7*7} {{7*7}} `; DROP TABLE links; --',
  'W'.repeat(200),
  '😀'.repeat(60),
  `Zalgo \u0e14${'\u0e49'.repeat(80)}`,
]

if (browser !== undefined) {
  t.test(
    'every page, full and empty, at 360 and 1280, light and dark: axe finds nothing serious, all fits',
    async (t) => {
      const full = await startSite(t)
      const { username, slug } = await fillMarket(full)
      const empty = await startSite(t)
      const bare = (await empty.store()).username
      const pages = [
        ...['/', '/?q=weather&price=1', '/?q=zzzz', `/${username}`, `/${username}/${slug}`].map(
          (path) => full.url + path,
        ),
        ...['/docs/', '/docs/tutorials/sell-your-api.html'].map((path) => full.url + path),
        ...['/', `/${bare}`, '/nobody_here'].map((path) => empty.url + path),
      ]
      for (const url of pages) {
        for (const [width, colorScheme] of [
          [360, 'dark'],
          [1280, 'light'],
        ] as const) {
          const options = { ...asPage, viewport: { width, height: 800 }, colorScheme }
          const { page, problems, elsewhere } = await openTab(t, browser, url, options)
          t.strictSame(await seriousFindings(page), [], `${url} at ${width}`)
          t.ok(await fitsItsWidth(page), `${url} fits ${width}`)
          t.strictSame([problems, elsewhere], [[], []], url)
          await page.context().close()
        }
      }
    },
  )

  t.test(
    'whatever sellers and buyers write: no script runs, no policy is broken, all fits a phone',
    async (t) => {
      const site = await startSite(t)
      const { key, username } = await site.store()
      const url = await site.seller()
      for (const [i, text] of naughty.entries()) {
        const title = [...text].slice(0, 100).join('').slice(0, 200)
        const price = i === 0 ? '0.000001' : '999999999.999999'
        const inputSchema = {
          type: 'object',
          properties: { [text]: { type: 'string', description: text, example: text } },
        }
        const body = {
          url,
          title,
          description: text.slice(0, 500),
          price,
          isPublic: true,
          inputSchema,
          outputExample: text,
        }
        const { status, text: lines } = await site.call('POST', '/api/v1/links', { key, body })
        t.equal(status, 201, lines)
      }
      const displayName = naughty[2]!
      await site.call('PATCH', '/api/v1/profile', {
        key,
        body: { displayName, bio: naughty[0]!.slice(0, 160) },
      })
      const { links } = (await site.call('GET', `/api/store/${username}`)).body
      const paths = [
        '/',
        `/${username}`,
        ...links.map((link: { slug: string }) => `/${username}/${link.slug}`),
      ]
      for (const path of paths) {
        const { page, problems, elsewhere } = await openTab(t, browser, site.url + path, {
          viewport: { width: 360, height: 800 },
        })
        t.ok(await fitsItsWidth(page), path)
        t.strictSame([problems, elsewhere], [[], []], path)
        t.notMatch(await page.title(), /^(hit|1)$/)
        await page.context().close()
      }
    },
  )

  t.test('five hundred links of a store stand on pages that fit, each leads to the next', async (t) => {
    const site = await startSite(t)
    const { key, username } = await site.store()
    const url = await site.seller()
    for (let i = 0; i < 500; i++)
      await site.call('POST', '/api/v1/links', {
        key,
        body: { url, title: `Link ${i}`, price: '0', isPublic: true },
      })
    const { page, problems } = await openTab(t, browser, `${site.url}/${username}`, {
      viewport: { width: 360, height: 800 },
    })
    const shown = await page.locator('.result').count()
    t.ok(shown > 0 && shown < 500)
    t.ok(await fitsItsWidth(page))
    const first = await page.locator('.result-title').first().textContent()
    await page.getByRole('link', { name: /next/i }).click()
    await page.waitForURL(/offset=/)
    t.equal(await page.locator('.result').count(), shown)
    t.not(await page.locator('.result-title').first().textContent(), first)
    t.strictSame(problems, [])
  })

  t.test('a search suggests while it is typed, by keyboard alone; a filter applies at once', async (t) => {
    const site = await startSite(t)
    const { username } = await fillMarket(site)
    const { page, problems } = await openTab(t, browser, `${site.url}/`)
    await page.locator('[data-island="search-box"][data-awake]').waitFor({ state: 'attached' })
    await page.keyboard.press('Tab')
    await page.getByRole('combobox', { name: 'Search links' }).focus()
    await page.keyboard.type('weat')
    await page.getByRole('option', { name: 'Weather of a city' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('listbox', { name: 'Suggestions' }).waitFor({ state: 'hidden' })
    await page.keyboard.type('h')
    await page.getByRole('option', { name: 'Weather of a city' }).waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Weather of a city', level: 1 }).waitFor()
    t.equal(new URL(page.url()).pathname, `/${username}/weather-of-a-city`)

    await page.goto(`${site.url}/`)
    await page.getByLabel('Price per call').selectOption('free')
    await page.getByText('1 found').waitFor()
    t.equal(await page.locator('.result').count(), 1)
    await page.getByRole('link', { name: 'Clear all' }).click()
    await page.getByText('6 in total').waitFor()
    t.strictSame(problems, [])
  })

  t.test(
    'on a phone the filters are closed, before and after a choice, and a result is in sight',
    async (t) => {
      const site = await startSite(t)
      await fillMarket(site)
      const viewport = { width: 360, height: 800 }
      const { page, problems } = await openTab(t, browser, `${site.url}/`, { viewport })
      const firstResultAt = async () => (await page.locator('.result').first().boundingBox())!.y
      t.ok((await firstResultAt()) < 600)
      const tags = await page.locator('#tag option').allTextContents()
      t.ok(tags.length > 1, 'tags to choose from')
      await page.getByText('Filters', { exact: true }).click()
      await page.getByLabel('Type').selectOption('api')
      await page.getByText('Filters (1)').waitFor()
      t.notOk(await page.getByLabel('Type').isVisible())
      t.ok((await firstResultAt()) < 600)
      await page.getByText('Filters (1)').click()
      await page.getByLabel('Tag').selectOption(tags[1]!)
      await page.getByText('Filters (2)').waitFor()
      t.match(new URL(page.url()).search, `tag=${encodeURIComponent(tags[1]!)}`)
      t.ok((await firstResultAt()) < 600)
      t.strictSame(problems, [])
    },
  )

  t.test('the reference of every route opens inside the pages, light and dark', async (t) => {
    const site = await startSite(t)
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page, problems, elsewhere } = await openTab(t, browser, `${site.url}/docs/api`, { colorScheme })
      await page.getByText('Create a link').first().waitFor()
      t.ok(await page.getByRole('link', { name: 'Marketplace' }).isVisible())
      t.ok(await fitsItsWidth(page))
      t.strictSame([problems, elsewhere], [[], []])
    }
  })

  t.test('without a script one finds, filters and reads all the same', async (t) => {
    const site = await startSite(t)
    const { username, slug } = await fillMarket(site)
    const { page } = await openTab(t, browser, `${site.url}/`, { javaScriptEnabled: false })
    await page.getByLabel('Search links').fill('exchange')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Exchange rates' }).click()
    await page.getByRole('heading', { name: 'Exchange rates', level: 1 }).waitFor()
    await page.goto(`${site.url}/${username}/${slug}`)
    await page.locator('label', { hasText: 'MCP' }).click()
    t.ok(await page.getByText('tool call_link').isVisible())
    await page.getByRole('link', { name: 'Docs' }).click()
    await page.getByRole('link', { name: 'Take a payment', exact: true }).first().click()
    await page.getByRole('heading', { name: 'Take a payment with the checkout', level: 1 }).waitFor()
  })
}
