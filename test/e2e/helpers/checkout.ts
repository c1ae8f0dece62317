import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import type { Test } from 'tap'
import { generatePrivateKey } from 'viem/accounts'
import { newSolanaSecret } from '../../../localnet/demoWallets.ts'
import {
  evmTestWallet,
  giveWallets,
  solanaTestWallet,
  type TestWallet,
} from '../../helpers/web/wallets/testWallets.ts'
import type { Chain } from './chains.ts'
import type { Product } from './product.ts'

export interface OpenedSession {
  readonly id: string
  readonly clientSecret: string
  readonly checkoutUrl: string
}

/** A payment session of the product's seller. */
export async function newSession(
  { url, store }: Pick<Product, 'url' | 'store'>,
  body: object = {},
): Promise<OpenedSession> {
  const response = await fetch(`${url}/api/v1/payments`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${store.apiKey}` },
    body: JSON.stringify({ amount: '4.20', title: 'Green tea', ...body }),
  })
  const { data, error } = (await response.json()) as { data?: OpenedSession; error?: unknown }
  if (data === undefined) throw new Error(`no session: ${JSON.stringify(error)}`)
  return data
}

/** What the seller's key reads of a session. */
export async function readSession(product: Pick<Product, 'url' | 'store'>, id: string) {
  const response = await fetch(`${product.url}/api/v1/payments/${id}`, {
    headers: { authorization: `Bearer ${product.store.apiKey}` },
  })
  // biome-ignore lint/suspicious/noExplicitAny: tests look at what they are about
  return ((await response.json()) as { data: any }).data
}

/** A wallet of a browser with USDC on a local chain. */
export function fundedWallet(
  { chains }: Product,
  chain: Chain,
  amountAtomic = 50_000_000n,
): Promise<TestWallet> {
  return chain.name === 'evm' ? onEvm() : onSolana()

  async function onEvm() {
    const wallet = evmTestWallet(generatePrivateKey(), chains.evm.rpcUrl, [1, 84532])
    await chains.evm.mintUsdc(wallet.address as `0x${string}`, amountAtomic)
    return wallet
  }

  async function onSolana() {
    const wallet = solanaTestWallet(newSolanaSecret())
    chains.solana.mintUsdc(wallet.address, amountAtomic)
    return wallet
  }
}

export interface BuyersTab {
  readonly page: Page
  /** Scripts' errors and broken rules of the page's policy. */
  readonly problems: readonly string[]
}

/** A browser profile with these wallets, and an empty tab in it. */
export async function buyersTab(
  t: Pick<Test, 'teardown'>,
  browser: Browser,
  wallets: readonly TestWallet[],
  options: BrowserContextOptions = {},
): Promise<BuyersTab> {
  const context = await browser.newContext(options)
  t.teardown(() => context.close())
  context.setDefaultTimeout(30_000)
  const page = await context.newPage()
  const problems: string[] = []
  context.on('page', (one) => watch(one, problems))
  watch(page, problems)
  await giveWallets(page, wallets)
  return { page, problems }
}

function watch(page: Page, problems: string[]): void {
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !/^Failed to load resource/.test(message.text()))
      problems.push(message.text())
  })
}

const names = {
  evm: { network: 'Base Sepolia', wallet: 'Base test wallet' },
  solana: { network: 'Solana Devnet', wallet: 'Solana test wallet' },
}

/** Presses what a buyer presses to pay on a chain. */
export async function payOn(page: Page, chain: Pick<Chain, 'name'>): Promise<void> {
  const { network, wallet } = names[chain.name]
  await page.getByRole('radio', { name: network }).check()
  await page.getByRole('button', { name: new RegExp(`^Pay .* with ${wallet}$`) }).click()
}
