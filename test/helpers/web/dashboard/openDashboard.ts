import type { Browser, BrowserContextOptions } from 'playwright-core'
import type { Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { Wallet } from '../../admin-api/wallets.ts'
import { type OpenedPage, openTab } from '../openSite.ts'
import { evmTestWallet, giveWallets, type TestWallet } from '../wallets/testWallets.ts'

/** One wallet, as tests of the API hold it and as a browser has it. */
export interface SellersWallet {
  readonly wallet: Wallet
  readonly inBrowser: TestWallet
}

export function sellersWallet(): SellersWallet {
  const key = generatePrivateKey()
  const account = privateKeyToAccount(key)
  const sign = (message: string) => account.signMessage({ message })
  // Signing in asks nothing of a node.
  return {
    wallet: { chain: 'base', address: account.address, sign },
    inBrowser: evmTestWallet(key, 'http://127.0.0.1:9'),
  }
}

/** A tab with a wallet, at an address of the dashboard, not signed in. */
export async function openTransport(
  t: Test,
  browser: Browser,
  url: string,
  wallets: readonly TestWallet[],
  options: BrowserContextOptions = {},
): Promise<OpenedPage> {
  const opened = await openTab(t, browser, url, options)
  await giveWallets(opened.page, wallets)
  await opened.page.reload()
  return opened
}

/** The same, signed in by the wallet. */
export async function openDashboard(
  t: Test,
  browser: Browser,
  url: string,
  wallet: TestWallet,
  options: BrowserContextOptions = {},
): Promise<OpenedPage> {
  const opened = await openTransport(t, browser, url, [wallet], options)
  await opened.page.getByRole('button', { name: /Base test wallet/ }).click()
  await opened.page.getByRole('button', { name: 'Sign out' }).first().waitFor()
  return opened
}
