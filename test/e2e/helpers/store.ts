import { createStore } from '../../../cli/runtime/createStore.ts'
import type { ConfigFile } from './config.ts'

export interface LinkFields {
  readonly url: string
  readonly slug: string
  readonly price: string | object
  readonly settle?: 'after' | 'before'
  readonly responseMode?: 'wrap' | 'raw'
}

/** A store of a running gateway. */
export interface Store {
  readonly apiKey: string
  /** Puts a link behind the marketplace API. @returns its address */
  addLink(link: LinkFields): Promise<string>
}

export async function openStore(
  config: ConfigFile,
  env: Readonly<Record<string, string>>,
  wallets: { readonly base: string; readonly solana: string },
): Promise<Store> {
  const { apiKey } = await createStore(config.file, env, { username: 'alice', ...wallets })
  return {
    apiKey,
    async addLink(link) {
      const response = await fetch(`${config.url}/api/v1/links`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
        body: JSON.stringify({ title: link.slug, ...link }),
      })
      const { data, error } = (await response.json()) as { data?: { fullUrl: string }; error?: unknown }
      if (data === undefined) throw new Error(`the link was not saved: ${JSON.stringify(error)}`)
      return data.fullUrl
    },
  }
}
