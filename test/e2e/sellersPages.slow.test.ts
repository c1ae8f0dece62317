import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import t from 'tap'
import { startGateway } from '../helpers/gateway.ts'
import { sellerOf } from '../helpers/sellerOf.ts'
import { startBrowser } from '../helpers/vault/browser.ts'

/** Tells in its title under which origin it ran, and what it could read of it. */
const script =
  "var s='';try{s+=localStorage.getItem('key')}catch(e){}try{s+=document.cookie}catch(e){}" +
  "document.title='ran as '+self.origin+' '+s"
const html = `<!doctype html><title>quiet</title><script>${script}</script>`
const svg = `<svg xmlns="http://www.w3.org/2000/svg"><title>quiet</title><script>${script}</script></svg>`
const xhtml = `<html xmlns="http://www.w3.org/1999/xhtml"><head><title>quiet</title><script>${script}</script></head></html>`
const utf7 = html.replaceAll('<', '+ADw-').replaceAll('>', '+AD4-')
const iso2022 = `\x1b(J"${html}`
const part = (type: string) => `--b\r\nContent-Type: ${type}\r\n\r\n${html}\r\n--b--\r\n`
const type = (value: string) => `Content-Type: ${value}`

/** Header lines and a body for each way to make a browser take an answer for a page. */
const attacks: readonly (readonly [lines: readonly string[], body: string])[] = [
  ...[
    'text/html',
    'TEXT/HTML; charset=utf-8',
    'application/json;, text/html',
    'application/json, text/html',
    'application/json; charset=utf-8, text/html',
    'application/json;,text/html;charset=utf-8',
    'application/json; x=", text/html"',
    'application/json ; charset=utf-8 , text/html ,',
    'text/html, application/json',
    'text/html;, application/json',
    'application/json\xa0',
    '\xa0application/json',
    'application/json\xa0; charset=utf-8',
    'application/json; charset=utf-7',
    'application/json/html',
    'application/json;text/html',
    'application/json text/html',
    'application/json;charset=utf-8;charset=iso-2022-jp',
    'application/javascript',
    'text/json',
    'text/plain',
    'text/xml',
    'text/css',
    'image/png, text/html',
    'image/png;, text/html',
    'application/octet-stream, text/html',
    'application/x-unknown',
    'unknown/unknown',
    'application/unknown',
    '*/*',
    '/',
    ';',
    ',',
    '',
  ].map((value) => [[type(value)], html] as const),
  ...[
    'application/xhtml+xml',
    'application/xml',
    'text/xml',
    'application/json+xml',
    'application/rss+xml',
  ].map((value) => [[type(value)], xhtml] as const),
  ...[
    'image/svg+xml',
    'IMAGE/SVG+XML',
    'image/svg+xml; charset=utf-8',
    'application/json, image/svg+xml',
  ].map((value) => [[type(value)], svg] as const),
  ...['application/json', 'text/html', 'text/plain'].flatMap((value) => [
    [[type(`${value}; charset=utf-7`)], utf7] as const,
    [[type(`${value}; charset=iso-2022-jp`)], iso2022] as const,
  ]),
  [[], html],
  [[type('application/json'), type('text/html')], html],
  [[type('text/html'), type('application/json')], html],
  [[type('application/json'), type('')], html],
  [[type('multipart/x-mixed-replace; boundary=b')], part('text/html')],
  [[type('multipart/mixed; boundary=b')], part('text/html')],
  [[type('message/rfc822')], `Content-Type: text/html\r\n\r\n${html}`],
  [[type('application/json'), `Refresh: 0;url=data:text/html,${encodeURIComponent(html)}`], '{}'],
  [[type('application/json'), `Refresh: 0;url=javascript:${encodeURIComponent(script)}`], '{}'],
  [[type('application/json'), 'Link: <./0>; rel="preload"; as="script", <./0>; rel=stylesheet'], html],
  [[type('application/json'), 'Content-Disposition: inline; filename="page.html"'], html],
  [[type('text/html'), 'Content-Disposition: inline'], html],
  [[type('text/html'), 'Content-Security-Policy: sandbox allow-scripts allow-same-origin'], html],
  [[type('text/html'), 'Content-Security-Policy-Report-Only: x', 'X-Content-Type-Options: none'], html],
  [[type('application/json'), 'X-Content-Type-Options: x', 'Content-Location: page.html'], html],
]

/** Sends the attack whose number ends the path. */
async function startAttacker(): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      const [lines, body] = attacks[Number(/\/(\d+) HTTP/.exec(chunk.toString('latin1'))?.[1])]!
      const head = ['HTTP/1.1 200 OK', `Content-Length: ${body.length}`, ...lines].join('\r\n')
      socket.write(`${head}\r\n\r\n${body}`, 'latin1')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const browser = await startBrowser(t)
if (browser !== undefined) {
  /** A page of the gateway's own: a script that runs here has the origin's key. */
  const own = (_req: IncomingMessage, res: ServerResponse) =>
    void res.writeHead(200, { 'content-type': 'text/html', 'set-cookie': 'session=c00kie' }).end(html)
  const gateway = await startGateway(t, {
    forwarder: { web: own, upgrade: (_req, socket) => void socket.destroy(), close() {} },
  })
  const link = await gateway.addLink({ slug: 'pages', url: await startAttacker() })
  const context = await browser.newContext({ acceptDownloads: false })

  const page = await context.newPage()

  /** The title of what an address shows; what is downloaded shows nothing, and the page before it stays. */
  async function titleOf(url: string): Promise<string> {
    await page.goto(url).catch((error: Error) => {
      if (!/ERR_ABORTED|Download is starting|ERR_INVALID_RESPONSE/.test(error.message)) throw error
    })
    return page.title()
  }

  t.test("a page of the gateway's own can read what the origin keeps", async (t) => {
    await page.goto(gateway.url)
    await page.evaluate("localStorage.setItem('key', 's3cret')")
    t.equal(await titleOf(gateway.url), `ran as ${gateway.url} s3cretsession=c00kie`)
    await page.goto('about:blank')
  })

  t.test(
    "no answer of a seller's runs script in the gateway's origin, however it names its type",
    async (t) => {
      for (const [i, [lines]] of attacks.entries()) {
        t.notMatch(await titleOf(`${link.url}/${i}`), /s3cret|c00kie|as http/, JSON.stringify(lines))
      }
    },
  )

  t.test(
    'a password that is meant for one seller does not go to another, nor is one asked for',
    async (t) => {
      const received: string[] = []
      const asking = (name: string) =>
        sellerOf(t, (req, res) => {
          received.push(`${name} ${req.headers.authorization}`)
          const challenge = { 'www-authenticate': 'Basic realm="the same"' }
          res.writeHead(req.headers.authorization ? 200 : 401, challenge).end('{}')
        })
      const honest = await gateway.addLink({ slug: 'honest', url: (await asking('honest')).url })
      const curious = await gateway.addLink({ slug: 'curious', url: (await asking('curious')).url })
      const withPassword = honest.url.replace('http://', 'http://buyer:passw0rd@')
      await page.goto(withPassword).catch(() => {})
      await page.goto(curious.url).catch(() => {})
      t.ok(received.includes('curious undefined'))
      t.notOk(
        received.some((line) => line.startsWith('curious Basic')),
        received.join(),
      )
    },
  )
}
