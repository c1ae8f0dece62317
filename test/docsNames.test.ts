// Pages that are written by hand list names of the code: each is there, under its present name.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { exitCodes } from '../cli/pay/exitCodes.ts'
import { mayMove, type PaymentState, paymentStates } from '../core/domain/payment.ts'
import { afterResponsePhases, gatewayPhases } from '../core/plugin/gateway.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** The first cells of a page's tables, without the marks of code. */
const rowsOf = (page: string) =>
  [...read(page).matchAll(/^\| (`?[^|]+?`?) \|/gm)].flatMap(([, cell]) =>
    cell!.replaceAll('`', '').split(', '),
  )

t.test('the diagram of payment states has every state, and only moves that the ledger makes', async (t) => {
  const page = read('docs/explanation/payments.md')
  const moves = [...page.matchAll(/^ {2}(\w+) --> (\w+)/gm)].map(
    ([, from, to]) => [from, to] as PaymentState[],
  )
  for (const [from, to] of moves) t.ok(mayMove(from!, to!), `${from} → ${to}`)
  for (const state of paymentStates) {
    t.ok(moves.flat().includes(state), `${state} in the diagram`)
    t.ok(rowsOf('docs/explanation/payments.md').includes(state), `${state} in the table`)
  }
})

t.test('the contract of plugins lists every phase and every port', async (t) => {
  const rows = rowsOf('docs/reference/plugin-api.md')
  for (const phase of [...gatewayPhases, ...afterResponsePhases]) t.ok(rows.includes(phase), phase)
  const [, ports = ''] = /interface GatewayPorts \{([\s\S]*?)^\}/m.exec(read('core/plugin/ports.ts')) ?? []
  const names = [...ports.matchAll(/^ {2}(\w+): /gm)].map(([, name]) => name!)
  t.ok(names.length > 10)
  for (const name of names) t.ok(rows.includes(name), name)
  for (const { name } of builtInPlugins) t.match(read('docs/reference/plugin-api.md'), name)
})

t.test('every alert, MCP tool and exit code is listed', async (t) => {
  const alerts = [...read('deploy/helm/tollgate/files/rules.yaml').matchAll(/- alert: (\w+)/g)]
  t.ok(alerts.length > 5)
  for (const [, alert] of alerts) t.ok(rowsOf('docs/how-to/monitor.md').includes(alert!), alert!)
  const sources = globSync('admin-api/mcp/*.ts', { cwd: root }).filter((file) => !file.includes('.test.'))
  const tools = sources.flatMap((file) => [...read(file).matchAll(/^ +name: '([a-z]+_[a-z]+)',$/gm)])
  t.ok(tools.length >= 10)
  for (const [, tool] of tools) t.ok(rowsOf('docs/how-to/connect-an-agent.md').includes(tool!), tool!)
  for (const code of Object.values(exitCodes))
    t.ok(rowsOf('docs/reference/cli.md').includes(String(code)), `${code}`)
})
