import type { AdminApiDeps } from '../../admin-api/deps.ts'
import { features } from '../../admin-api/features.ts'
import { createAdminApi } from '../../admin-api/server.ts'
import { markdownTable } from '../../core/config/docs.ts'
import { silentLog } from '../../core/ports/log.ts'
import { routes } from '../../vault/operations/table.ts'

interface Document {
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

interface Operation {
  readonly tags: readonly string[]
  readonly summary: string
  readonly security: readonly Readonly<Record<string, unknown>>[]
}

/** How a caller proves its identity, as the table of routes states it. */
const credentials: Readonly<Record<string, string>> = {
  apiKey: 'API key',
  clientSecret: 'client secret',
  reviewToken: 'review token',
  browser: 'seller’s cookie',
  operator: 'operator’s cookie',
}

/** Every route of the control plane, by subject, from the OpenAPI document that the gateway serves. */
export async function routeReference(): Promise<string> {
  const { tags, paths } = await describedApi()
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      tag: operation.tags[0]!,
      row: [
        `\`${method.toUpperCase()} ${path}\``,
        operation.summary,
        operation.security.map((one) => credentials[Object.keys(one)[0]!]).join(' or ') || '–',
      ],
    })),
  )
  return tags
    .map(({ name, description }) => ({
      name,
      description,
      rows: operations.filter(({ tag }) => tag === name).map(({ row }) => row),
    }))
    .filter(({ rows }) => rows.length > 0)
    .map(
      ({ name, description, rows }) =>
        `### ${name}\n\n${description}\n\n${markdownTable([['Route', 'What it does', 'Credential'], ...rows])}`,
    )
    .join('\n\n')
}

/** The OpenAPI document of an admin API. That API sells nothing, so it needs only the ports below. */
async function describedApi(): Promise<Document> {
  const deps = {
    publicUrl: 'https://pay.example.com',
    serviceName: 'Tollgate',
    log: silentLog,
    clock: { now: () => 0 },
    sealer: { mac: () => Buffer.alloc(32) },
    counters: { take: () => ({ ok: true, remaining: 1, resetAtMs: 0 }) },
    changes: { publish() {}, subscribe: () => () => {} },
    browserSessions: { ofHolder: async () => [] },
    discovery: { search: async () => ({ links: [], total: 0 }) },
    feesPayTo: { base: null, solana: null },
    assets: [],
    operator: {},
  } as unknown as AdminApiDeps
  // The documentation pages are not served, because this program's output builds them.
  const api = await createAdminApi(
    deps,
    features.filter(({ name }) => name !== 'Docs'),
  )
  const { body } = await api.inject('/openapi.json')
  await api.close()
  return JSON.parse(body) as Document
}

/** The vault's routes for agents. */
export function vaultRouteReference(): string {
  const rows = routes.flatMap(({ method, path, operation: { name, description, isRemote } }) =>
    name === undefined || description === undefined
      ? []
      : [[`\`${method} ${path}\``, description, isRemote === true ? 'yes' : 'no']],
  )
  return markdownTable([['Route', 'What it does', 'Over the relay'], ...rows])
}
