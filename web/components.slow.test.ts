import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import t, { type Test } from 'tap'
import { startBrowser } from '../test/helpers/vault/browser.ts'
import { Gallery } from '../test/helpers/web/gallery.ts'
import { fitsItsWidth, openTab, seriousFindings } from '../test/helpers/web/openSite.ts'
import { buildWeb } from './build.ts'
import { html } from './html.ts'
import { assetPath, readAsset } from './render/assets.ts'
import { renderPage } from './render/renderPage.ts'

await buildWeb()
const browser = await startBrowser(t)

/** The component gallery under its content security policy, on a port of its own. */
async function startGallery(t: Test): Promise<string> {
  const page = renderPage({ name: 'site', title: 'Components', description: '', body: html`<${Gallery} />` })
  const server = createServer((request, response) => {
    const asset = readAsset(request.url!.slice(assetPath('').length))
    if (asset) return void response.writeHead(200, { 'content-type': asset.type }).end(asset.plain)
    response
      .writeHead(200, { 'content-type': 'text/html', 'content-security-policy': page.policy })
      .end(page.html)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close(server.closeAllConnections()))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const polls = async (t: Test, chromium: Browser, colorScheme: 'light' | 'dark', width: number) => {
  const { page, problems, elsewhere } = await openTab(t, chromium, await startGallery(t), {
    colorScheme,
    viewport: { width, height: 900 },
  })
  await page.locator('[data-island="copy-button"][data-awake]').first().waitFor({ state: 'attached' })
  t.strictSame(await seriousFindings(page), [], `${colorScheme} at ${width}: what axe finds`)
  t.ok(await fitsItsWidth(page), `${colorScheme} at ${width}: it fits`)
  t.strictSame([problems, elsewhere], [[], []])
}

if (browser !== undefined) {
  t.test(
    'every component: nothing serious for axe, nothing wider than the window, no broken policy',
    async (t) => {
      for (const scheme of ['light', 'dark'] as const) {
        for (const width of [360, 1280]) await polls(t, browser, scheme, width)
      }
    },
  )

  t.test('a copy button copies and says so; tabs work by keyboard; both under the policy', async (t) => {
    const { page, problems } = await openTab(t, browser, await startGallery(t), {
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    await page.getByRole('radio', { name: 'curl' }).focus()
    await page.keyboard.press('ArrowRight')
    const code = 'tollgate pay https://pay.example/api/link/demo/weather'
    await page.getByText(code).waitFor()
    await page.getByRole('button', { name: 'Copy tollgate pay' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    t.equal(await page.evaluate('navigator.clipboard.readText()'), code)
    t.strictSame(problems, [])
  })

  t.test(
    'a table shows every column on a phone: each cell with its title, nothing to scroll for',
    async (t) => {
      const { page } = await openTab(t, browser, await startGallery(t), {
        viewport: { width: 360, height: 900 },
      })
      const frame = page.getByRole('region', { name: 'Purchases' })
      const [needs, has] = await frame.evaluate(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])
      t.equal(needs, has)
      const cells = frame.getByRole('row').nth(1).getByRole('cell')
      const titles = await cells.evaluateAll((all) =>
        all.map((cell) => getComputedStyle(cell, '::before').content),
      )
      t.strictSame(titles, ['none', '"Amount"', '"What"', '"State"', '"Buyer"', '"Network"'])
      await page.setViewportSize({ width: 1280, height: 900 })
      t.ok(await frame.getByRole('columnheader', { name: 'Network' }).isVisible())
      t.equal(await cells.last().evaluate((cell) => getComputedStyle(cell, '::before').content), 'none')
    },
  )

  t.test(
    'a table of six columns needs no scrolling on a tablet either, and one of three keeps its columns',
    async (t) => {
      const { page } = await openTab(t, browser, await startGallery(t))
      for (const width of [600, 720, 840]) {
        await page.setViewportSize({ width, height: 900 })
        const many = page.getByRole('region', { name: 'Purchases' })
        const [needs, has] = await many.evaluate(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])
        t.equal(needs, has, `${width}`)
        const title = many.getByRole('row').nth(1).getByRole('cell').last()
        t.equal(await title.evaluate((cell) => getComputedStyle(cell, '::before').content), '"Network"')
        const few = page.getByRole('region', { name: 'Amounts' })
        t.ok(await few.getByRole('columnheader', { name: 'When' }).isVisible(), `${width}`)
      }
    },
  )

  t.test('it reads the same where no script runs', async (t) => {
    const { page } = await openTab(t, browser, await startGallery(t), { javaScriptEnabled: false })
    for (const text of ['2 min. ago', '0x0000…00a1', '10:00 left', '1\u202f234\u202f567.89 USDC']) {
      t.ok(await page.getByText(text).first().isVisible(), text)
    }
    await page.locator('label', { hasText: 'tollgate pay' }).click()
    t.ok(await page.getByText('tollgate pay https://').isVisible())
  })
}
