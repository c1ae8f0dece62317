import type { Test } from 'tap'
import type { AdminApiDeps, OperatorDeps } from '../../../admin-api/deps.ts'
import { cookieIn, samePage } from './browser.ts'
import { type Answer, type Fixture, startAdmin } from './startAdmin.ts'

export const operatorToken = 'a-token-of-at-least-32-characters'

/** What the operator's page stands on, for a service of a test. @param of the service, as soon as there is one */
export function operatorDeps(of: () => Fixture, more: Partial<OperatorDeps> = {}): OperatorDeps {
  return {
    token: operatorToken,
    ledger: {
      list: (filter) => of().db.ledger.list(filter),
      parked: (...args) => of().db.ledger.parked(...args),
    },
    operatorView: {
      stores: (...args) => of().db.operatorView.stores(...args),
      suspended: (limit) => of().db.operatorView.suspended(limit),
      backlog: () => of().db.operatorView.backlog(),
      gasByDay: (...args) => of().db.operatorView.gasByDay(...args),
    },
    problems: async () => [],
    settling: async () => [],
    networks: async () => [{ network: 'eip155:84532', isOpen: true, problems: ['The key has little gas.'] }],
    config: { publicUrl: 'https://pay.example' },
    callCounts: async () => [],
    pipelineOf: () => ({
      ...{ steps: [], deliver: [], log: [], problems: [], takesNoPayment: false, entries: [] },
    }),
    ...more,
  }
}

/** A service with an operator. Its books are those of the store. */
export async function startWithOperator(
  t: Test,
  more: Partial<OperatorDeps> = {},
  deps: Partial<AdminApiDeps> = {},
): Promise<Fixture> {
  let f: Fixture | undefined
  f = await startAdmin(t, { ...deps, operator: operatorDeps(() => f!, more) })
  return f
}

export const signInOperator = (
  f: Fixture,
  given = operatorToken,
  headers: Record<string, string> = samePage,
  ip?: string,
): Promise<Answer> =>
  f.call('POST', '/api/operator/session', { body: { token: given }, headers, ...(ip && { ip }) })

/** Calls as the operator's page does. */
export async function callAsOperator(f: Fixture) {
  const response = await signInOperator(f)
  const headers = {
    ...samePage,
    cookie: cookieIn(response),
    'x-csrf-token': response.body.data.csrfToken as string,
  }
  const ask = (method: string, path: string, body?: unknown): Promise<Answer> =>
    f.call(method, path, { headers, ...(body !== undefined && { body }) })
  return { ask, headers }
}
