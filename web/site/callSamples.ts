import { familyOf } from '../../core/domain/network.ts'
import type { CodeSample } from '../components/tabs.ts'

export interface CalledLink {
  /** The link's public address. */
  readonly url: string
  readonly method: string
  /** CAIP-2 ids of the link's networks. Empty for a free link. */
  readonly networks: readonly string[]
  readonly publicUrl: string
  readonly username: string
  readonly slug: string
  /** Example input, sent as the query or as a JSON body. */
  readonly example: Readonly<Record<string, unknown>> | null
}

/** Whether a request with this method has a body. */
export const hasBody = (method: string): boolean => ['POST', 'PUT', 'PATCH'].includes(method)

/** The query string of an example with its question mark. Empty if there is no example. */
export const queryOf = (values: Readonly<Record<string, unknown>> | null): string => {
  const pairs = Object.entries(values ?? {}).map(([name, value]): [string, string] => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ])
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`
}

/** Code samples that call a link. */
export function callSamples(link: CalledLink): CodeSample[] {
  const { method, publicUrl, username, slug, example, networks } = link
  const isPaid = networks.length > 0
  const body = hasBody(method) ? JSON.stringify(example ?? {}) : undefined
  const url = link.url + (body === undefined ? queryOf(example) : '')
  const flags = [
    ...(method === 'GET' ? [] : [`-X ${method}`]),
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${shellWord(body)}`]),
  ]
  const line = (program: string) =>
    flags.length === 0 ? `${program} ${shellWord(url)}` : [program, ...flags, shellWord(url)].join(' \\\n  ')
  const call = { link: `${username}/${slug}`, ...(method !== 'GET' && { method }) }
  const input = example && { [hasBody(method) ? 'body' : 'query']: example }
  return [
    { title: 'curl', code: line(isPaid ? 'curl -i' : 'curl') },
    { title: isPaid ? '@x402/fetch' : 'fetch', code: program(networks[0], url, method, body) },
    ...(isPaid ? [{ title: 'tollgate pay', code: line('npx tollgate pay') }] : []),
    {
      title: 'MCP',
      code: `# ${publicUrl}/mcp, tool call_link\n${JSON.stringify({ ...call, ...input }, null, 2)}`,
    },
  ]
}

/** Quotes a text as one word of a POSIX shell. */
const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`

function program(network: string | undefined, url: string, method: string, body: string | undefined): string {
  const init = [
    ...(method === 'GET' ? [] : [`method: ${JSON.stringify(method)}`]),
    ...(body === undefined
      ? []
      : ["headers: { 'Content-Type': 'application/json' }", `body: JSON.stringify(${body})`]),
  ]
  const options = init.length === 0 ? '' : `, {\n  ${init.join(',\n  ')},\n}`
  const call = (name: string) =>
    `const response = await ${name}(${JSON.stringify(url)}${options})\nconsole.log(await response.json())`
  if (network === undefined) return call('fetch')
  return `${familyOf(network) === 'solana' ? solanaClient : evmClient}
const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: ${JSON.stringify(network)}, client }] })

${call('pay')}`
}

const evmClient = `import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'

const client = new ExactEvmScheme(privateKeyToAccount(process.env.BUYER_KEY))`

const solanaClient = `import { createKeyPairSignerFromBytes } from '@solana/kit'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm'

const key = Uint8Array.from(JSON.parse(process.env.BUYER_KEY))
const client = new ExactSvmScheme(await createKeyPairSignerFromBytes(key))`
