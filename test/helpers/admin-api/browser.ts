import type { Answer, Fixture } from './startAdmin.ts'
import { publicUrl } from './startAdmin.ts'
import { evmWallet, type Wallet } from './wallets.ts'

export interface SignedInBrowser {
  readonly wallet: Wallet
  readonly cookie: string
  readonly csrfToken: string
  readonly response: Answer
  /** Calls as a page of the service does. */
  call(method: string, path: string, body?: unknown): Promise<Answer>
}

/** What a browser says of a request that a page of this service makes. */
export const samePage = { origin: publicUrl, 'sec-fetch-site': 'same-origin' }

/** Asks for a text, signs it and sends it: what a page does to sign in. */
export async function trySignIn(
  f: Fixture,
  wallet: Wallet,
  more: object = {},
  headers: Record<string, string> = samePage,
): Promise<Answer> {
  const { address, chain } = wallet
  const nonce = await f.call('POST', '/api/dashboard/nonce', { body: { address, chain } })
  const { message } = nonce.body.data
  const body = { address, chain, message, signature: await wallet.sign(message), ...more }
  return f.call('POST', '/api/dashboard/session', { body, headers })
}

/** A browser that is signed in to the store of a wallet, made for it where it has none. */
export async function signInBrowser(
  f: Fixture,
  wallet: Wallet = evmWallet(),
  headers: Record<string, string> = samePage,
): Promise<SignedInBrowser> {
  const response = await trySignIn(f, wallet, { openStore: true }, headers)
  const cookie = cookieIn(response)
  const { csrfToken } = response.body.data
  return {
    ...{ wallet, cookie, csrfToken, response },
    call: (method, path, body) =>
      f.call(method, path, {
        ...(body !== undefined && { body }),
        headers: { ...samePage, cookie, 'x-csrf-token': csrfToken },
      }),
  }
}

/** `name=value` of the cookie that an answer sets. */
export const cookieIn = (response: Answer): string =>
  String([response.headers['set-cookie']].flat()[0]).split(';', 1)[0]!
