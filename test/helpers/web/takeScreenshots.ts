import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { fillMarket } from '../../../cli/demo/fillMarket.ts'
import { payOnce } from '../../../cli/demo/runDemo.ts'
import { startDemo } from '../../../cli/demo/startDemo.ts'
import { buildWeb } from '../../../web/build.ts'
import { evmTestWallet, giveWallets } from './wallets/testWallets.ts'

/**
 * Takes the pictures of the guides from the demo: `npm run pictures`. With `--all FOLDER` it takes every page at 360, 768 and 1280
 * pixels, light and dark, to look at. Needs Chromium, as the tests do, and pngquant.
 */
interface View {
  readonly name: string
  /** Below the demo's address, or a whole one. */
  readonly path: string
  /** The visitor. Default: any visitor. */
  readonly as?: 'seller' | 'operator' | 'buyer'
  /** What is done there first. */
  readonly act?: (page: Page) => Promise<unknown>
}

/** Pictures that guides show: the view, and how it is looked at. */
const shown = [
  { file: 'marketplace', view: 'market', width: 1_280, scheme: 'light', height: 900 },
  { file: 'store', view: 'store', width: 1_280, scheme: 'light', height: 900 },
  { file: 'link', view: 'link', width: 1_280, scheme: 'light', height: 900 },
  { file: 'checkout-wide', view: 'checkout', width: 1_280, scheme: 'light', height: 760 },
  { file: 'dashboard', view: 'dashboard', width: 1_280, scheme: 'light', height: 900 },
  { file: 'dashboard-link', view: 'dashboard-link', width: 1_280, scheme: 'light', height: 900 },
  // It pays: what others show of sales stands before it.
  { file: 'checkout-receipt', view: 'receipt', width: 360, scheme: 'dark', height: 780 },
] as const

type Cookies = Awaited<ReturnType<BrowserContext['storageState']>>
/** Who signed in once stays so: a client may ask for few texts to sign in a minute. */
const cookies: Partial<Record<'seller' | 'operator', Cookies>> = {}

const { values } = parseArgs({ options: { all: { type: 'string' }, only: { type: 'string' } } })
const docs = join(import.meta.dirname, '../../../docs/pictures')

await buildWeb()
const demo = await startDemo({ port: 0, onStep: (text) => process.stderr.write(`${text}\n`) })
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars'],
})
try {
  for (const buyer of demo.buyers) await payOnce(demo, buyer, 'Lisbon')
  const [buyer] = demo.buyers
  await demo.evm.mintUsdc(buyer!.address as `0x${string}`, 50_000_000n)
  const { checkoutUrl } = await fillMarket(demo)
  const views = await viewsOf(checkoutUrl)
  if (values.all === undefined) {
    for (const { file, view, ...look } of shown) {
      const bytes = await take(views.find(({ name }) => name === view)!, look)
      save(join(docs, `${file}.png`), bytes)
    }
    const card = await fetch(`${demo.tollgate.gatewayUrl}/demo/weather/card.png`)
    save(join(docs, 'card.png'), Buffer.from(await card.arrayBuffer()))
  } else {
    mkdirSync(values.all, { recursive: true })
    for (const view of views) {
      if (values.only !== undefined && !view.name.startsWith(values.only)) continue
      for (const scheme of ['light', 'dark'] as const) {
        for (const width of [360, 768, 1_280]) {
          const bytes = await take(view, { width, scheme })
          writeFileSync(join(values.all, `${view.name}-${width}-${scheme}.png`), bytes)
        }
      }
    }
  }
} finally {
  await browser.close()
  await demo.close()
}

async function viewsOf(checkoutUrl: string): Promise<View[]> {
  const { stack } = demo.tollgate
  const link = (await stack.store.links.served('demo', 'weather'))!
  const delivered = await stack.store.ledger.list({ states: ['delivered'], limit: 500 })
  const purchase = delivered.find(({ storeId }) => storeId === link.storeId)
  const dashboard = ['links', 'purchases', 'sessions', 'reviews', 'webhooks', 'fees', 'profile', 'developer']
  const pay = async (page: Page) => {
    const button = page.getByRole('button', { name: /^Pay .* with Base test wallet$/ })
    const paid = page.getByRole('heading', { name: 'Paid', exact: true })
    await button.or(paid).first().waitFor()
    // It was paid for the picture before.
    if (await button.isVisible()) await button.click()
    await paid.waitFor()
  }
  return [
    { name: 'market', path: '/' },
    { name: 'market-search', path: '/?q=text&price=0.1' },
    { name: 'market-nothing', path: '/?q=zebra' },
    { name: 'store', path: '/northwind' },
    { name: 'link', path: '/demo/weather' },
    { name: 'link-post', path: '/polyglot/translate' },
    { name: 'link-free', path: '/northwind/holidays' },
    { name: 'lost', path: '/nobody_here' },
    { name: 'docs', path: '/docs/' },
    { name: 'docs-guide', path: '/docs/tutorials/sell-your-api.html' },
    { name: 'docs-api', path: '/docs/api' },
    { name: 'checkout', path: checkoutUrl, as: 'buyer' },
    { name: 'checkout-bare', path: checkoutUrl },
    { name: 'receipt', path: checkoutUrl, as: 'buyer', act: pay },
    { name: 'sign-in', path: '/dashboard' },
    { name: 'dashboard', path: '/dashboard', as: 'seller' },
    ...dashboard.map(
      (part): View => ({ name: `dashboard-${part}`, path: `/dashboard/${part}`, as: 'seller' }),
    ),
    { name: 'dashboard-link', path: `/dashboard/links/${link.id}`, as: 'seller' },
    { name: 'dashboard-new', path: '/dashboard/links/new', as: 'seller' },
    { name: 'dashboard-new-session', path: '/dashboard/sessions/new', as: 'seller' },
    { name: 'dashboard-purchase', path: `/dashboard/purchases/${purchase!.purchaseId}`, as: 'seller' },
    { name: 'operator-door', path: '/operator' },
    { name: 'operator', path: '/operator', as: 'operator' },
  ]
}

interface Look {
  readonly width: number
  readonly scheme: 'light' | 'dark'
  /** Of the window, which is what is seen; left out: the whole page. */
  readonly height?: number
}

async function take({ name, path, as, act }: View, { width, scheme, height }: Look): Promise<Buffer> {
  const context = await browser.newContext({
    viewport: { width, height: height ?? 800 },
    colorScheme: scheme,
    extraHTTPHeaders: { accept: 'text/html' },
    reducedMotion: 'reduce',
    ...((as === 'seller' || as === 'operator') && cookies[as] && { storageState: cookies[as] }),
  })
  try {
    const page = await openAs(context, as)
    await page.goto(path.startsWith('/') ? demo.tollgate.gatewayUrl + path : path)
    if (as === 'seller' || as === 'operator') {
      if (cookies[as] === undefined) await (as === 'seller' ? signInSeller(page) : signInOperator(page))
      await page.getByRole('button', { name: 'Sign out' }).first().waitFor()
      cookies[as] = await context.storageState()
    }
    await act?.(page)
    // Skeletons and islands are gone when nothing is asked for any more; some pages listen for ever.
    await page.waitForLoadState('networkidle', { timeout: 3_000 }).catch(() => {})
    const isWide = await page.evaluate(
      'document.documentElement.scrollWidth > document.documentElement.clientWidth',
    )
    if (isWide) process.stderr.write(`${name} does not fit ${width}\n`)
    return await page.screenshot({ fullPage: height === undefined })
  } finally {
    await context.close()
  }
}

async function openAs(context: BrowserContext, as: View['as']): Promise<Page> {
  context.setDefaultTimeout(30_000)
  const page = await context.newPage()
  const key = as === 'seller' ? demo.seller.evmPrivateKey : as === 'buyer' ? demo.buyers[0]!.privateKey : ''
  if (key !== '') await giveWallets(page, [evmTestWallet(key, demo.evm.rpcUrl)])
  return page
}

async function signInSeller(page: Page): Promise<void> {
  await page.getByRole('button', { name: /Base test wallet/ }).click()
}

async function signInOperator(page: Page): Promise<void> {
  await page.getByLabel('Token').fill(demo.operatorToken)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** A palette of 256 colours is enough for pages, and a third of the bytes. */
function save(file: string, bytes: Buffer): void {
  const small = execFileSync('pngquant', ['--quality', '70-95', '--speed', '1', '--strip', '-'], {
    input: bytes,
  })
  writeFileSync(file, small)
  process.stderr.write(`${file} ${Math.round(small.length / 1_000)} kB\n`)
}
