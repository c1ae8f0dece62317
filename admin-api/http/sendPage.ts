import { randomBytes } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { Html, html } from './html.ts'

export interface Page {
  readonly title: string
  readonly description: string
  readonly body: Html
}

/** Sends a page that needs nothing but itself: one style element with a nonce, no script, no other host. */
export function sendPage(reply: FastifyReply, page: Page): FastifyReply {
  const nonce = randomBytes(16).toString('base64')
  const document = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${page.title}</title>
<meta name="description" content="${page.description}">
<link rel="icon" href="data:,">
<style nonce="${nonce}">${style}</style>
</head>
<body>
${page.body}
</body>
</html>
`
  return reply
    .type('text/html; charset=utf-8')
    .header(
      'content-security-policy',
      `default-src 'none'; style-src 'nonce-${nonce}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    )
    .header('cache-control', 'no-cache')
    .send(document.markup)
}

const style = new Html(`
:root {
  color-scheme: light dark;
  --text: light-dark(#1b1d22, #e8e9ec);
  --soft: light-dark(#5a606b, #a3a9b5);
  --line: light-dark(#dcdfe5, #343943);
  --card: light-dark(#ffffff, #1d2026);
  --page: light-dark(#f6f7f9, #14161a);
  --link: light-dark(#1a4fd0, #8fb4ff);
}
* { box-sizing: border-box }
body {
  margin: 0 auto; padding: 2.5rem 1rem 4rem; max-width: 46rem;
  font: 1rem/1.6 system-ui, sans-serif; color: var(--text); background: var(--page);
}
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; overflow-wrap: anywhere }
h2 { margin: 2.2rem 0 .7rem; font-size: 1.15rem }
p { margin: .6rem 0 }
a { color: var(--link); text-underline-offset: .15em }
a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 2px }
.lead { color: var(--soft); font-size: 1.1rem; overflow-wrap: anywhere; white-space: pre-line }
.soft { color: var(--soft) }
ul.cards, ol.cards { list-style: none; margin: 0; padding: 0; display: grid; gap: .75rem }
.cards > li { padding: .9rem 1rem; background: var(--card); border: 1px solid var(--line); border-radius: .6rem }
.cards h3 { margin: 0; font-size: 1rem; overflow-wrap: anywhere }
.cards p { margin: .3rem 0 0; color: var(--soft); overflow-wrap: anywhere }
.row { display: flex; gap: 1rem; justify-content: space-between; align-items: baseline }
.price { white-space: nowrap; font-variant-numeric: tabular-nums; font-weight: 600 }
code, pre { font: .875rem/1.5 ui-monospace, monospace }
pre {
  margin: .6rem 0; padding: .8rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem; white-space: pre-wrap; overflow-wrap: anywhere
}
footer { margin-top: 3rem; color: var(--soft); font-size: .9rem }
`)
