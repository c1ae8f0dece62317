import fc from 'fast-check'
import t from 'tap'
import { remoteRoutes, routes } from '../operations/table.ts'
import { judgeRoute as judge, methodsOf as methods } from './remoteRequest.ts'

const judgeRoute = (method: string, target: string) => judge(remoteRoutes, method, target)
const methodsOf = (target: string) => methods(remoteRoutes, target)

t.test('every allowed route is allowed for its method and no other', async (t) => {
  for (const { method, path } of remoteRoutes) {
    const target = path.replace(/:\w+/g, 'x1')
    t.equal(judgeRoute(method, target), 'allowed', `${method} ${target}`)
    t.strictSame(methodsOf(target), [method])
    for (const other of ['PUT', 'DELETE', 'HEAD', 'OPTIONS', method.toLowerCase(), ''])
      t.equal(judgeRoute(other, target), 'other-method')
    for (const near of [
      `${target}/`,
      `/${target}`,
      `${target}/x/y/z`,
      `${target}%20`,
      target.toUpperCase(),
      target.slice(1),
    ])
      t.equal(judgeRoute(method, near), 'unknown', near)
  }
})

t.test('what is allowed reads the same for every parser of URLs', async (t) => {
  const piece = fc.oneof(
    fc.constantFrom(
      '/address/',
      '/v1/vault/',
      'read',
      'solana',
      'unlock',
      '..',
      '.',
      '/',
      '\\',
      '?',
      '#',
      '%2e',
      '%2F',
      ';',
      '@',
      ':',
      '//',
      'x',
      ' ',
      '\t',
      '\0',
      'é',
    ),
    fc.string({ maxLength: 3 }),
  )
  let allowed = 0
  const same = (target: string, method: string): boolean => {
    if (judgeRoute(method, target) !== 'allowed') return true
    allowed++
    const url = new URL(target, 'http://vault.invalid')
    return url.href === `http://vault.invalid${target}`
  }
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), fc.constantFrom('GET', 'POST'), (pieces, method) =>
      same(pieces.join(''), method),
    ),
    { numRuns: 3000 },
  )
  fc.assert(
    fc.property(
      piece,
      piece,
      (a, b) => same(`/address/solana${a}${b}`, 'GET') && same(`/address/${a}${b}`, 'GET'),
    ),
    { numRuns: 3000 },
  )
  t.ok(allowed > 50, `${allowed} were allowed`)
})

t.test('whatever signs, reads or acts for an agent on this machine does so for one elsewhere', async (t) => {
  const pipeline = routes.filter(({ operation }) => operation.keepsKey)
  t.ok(pipeline.length > 10)
  for (const { method, path } of pipeline) t.equal(judgeRoute(method, path), 'allowed', path)
})

t.test('no operation of the owner is remote, listed for agents, or a tool', async (t) => {
  const owners = routes.filter(({ operation }) => operation.who === 'owner')
  t.ok(owners.length > 30)
  for (const { method, path, operation } of owners) {
    t.not(judgeRoute(method, path.replace(/:\w+/g, 'x1')), 'allowed', path)
    t.notOk(operation.isRemote ?? operation.name ?? operation.tool, path)
  }
})

t.test('nothing of the owner is among them', async (t) => {
  for (const path of [
    'unlock',
    'lock',
    'agents',
    'policies',
    'pairings',
    'events',
    'approvals/a/approve',
    'approvals/a/deny',
  ])
    for (const method of ['GET', 'POST']) t.not(judgeRoute(method, `/v1/vault/${path}`), 'allowed', path)
})
