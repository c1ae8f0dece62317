import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { createStore } from '../../cli/runtime/createStore.ts'
import { type Child, startGateway } from '../e2e/helpers/child.ts'
import { freePort } from './freePort.ts'
import { defaultPlugins } from './gateway.ts'
import { testPayTo } from './settler.ts'

/** `tollgate start` without chains, as processes of their own: for what is about processes and not about payments. */
export interface PlainGateway {
  readonly child: Child
  readonly url: string
}

/** Starts gateways on one SQLite file; `start` may be called again with the same port. */
export async function plainGateways(t: Test, gatewayOptions: object, sections: object = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-plain-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  let stored: { readonly apiKey: string } | undefined
  const start = async (port: number): Promise<PlainGateway> => {
    const file = join(folder, `${port}.yaml`)
    const config = {
      publicUrl: 'https://pay.example.com',
      gateway: { port, ...gatewayOptions },
      admin: { port: 0 },
      storage: { path: './tollgate.db' },
      secretFile: './secret',
      egress: { allowPrivateCidrs: ['127.0.0.0/8'] },
      plugins: defaultPlugins,
      log: { format: 'json' },
      ...sections,
    }
    writeFileSync(file, JSON.stringify(config))
    const child = await startGateway(t, { file }, {})
    stored ??= await createStore(file, {}, { username: 'alice', base: testPayTo })
    return { child, url: `http://127.0.0.1:${port}` }
  }
  /** @returns the path of a new free link */
  const addLink = async (url: string, link: { readonly url: string; readonly slug: string }) => {
    const response = await fetch(`${url}/api/v1/links`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${stored!.apiKey}` },
      body: JSON.stringify({ title: link.slug, price: '0', ...link }),
    })
    const { data, error } = (await response.json()) as { data?: { fullUrl: string }; error?: unknown }
    if (data === undefined) throw new Error(`the link was not saved: ${JSON.stringify(error)}`)
    return new URL(data.fullUrl).pathname
  }
  return { start, addLink, newPort: freePort }
}
