import t from 'tap'
import { isLoopback } from './isLoopback.ts'

t.test('this machine, by every name that a URL, a socket or a configuration gives it', async (t) => {
  for (const host of ['localhost', '127.0.0.1', '127.255.255.254', '::1', '[::1]', '::ffff:127.0.0.1'])
    t.ok(isLoopback(host), host)
})

t.test('what only looks like this machine is not', async (t) => {
  for (const host of [
    '',
    '0.0.0.0',
    '::',
    '128.0.0.1',
    '127.0.0.1.example.com',
    '127.0.0',
    '127.1.1.999',
    '127.0.0.01',
    'localhost.example.com',
    'shop.localhost',
    'localhost.',
    'LOCALHOST.example',
    '[localhost]',
    '[::ffff:7f00:2]x',
    '::ffff:128.0.0.1',
    '::ffff:::ffff:127.0.0.1',
  ])
    t.notOk(isLoopback(host), host)
})
