import fc from 'fast-check'
import t from 'tap'
import { routes } from '../http/routes.ts'
import { allowedRoutes, judgeRoute, methodsOf } from './allowedRoutes.ts'

t.test('every allowed route is allowed for its method and no other', async (t) => {
  for (const { method, path } of allowedRoutes) {
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
  const pipeline = routes.filter(({ keepsKey }) => keepsKey)
  t.ok(pipeline.length > 10)
  for (const { method, path } of pipeline) t.equal(judgeRoute(method, path), 'allowed', path)
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
