const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Markup that may stand in a page as it is; made by {@link html} only. */
export class Html {
  readonly markup: string
  constructor(markup: string) {
    this.markup = markup
  }
  toString(): string {
    return this.markup
  }
}

export type HtmlValue = Html | string | number | readonly Html[]

/** A piece of HTML. Every value is escaped, for text and for quoted attributes, unless it is a piece itself. */
export function html(pieces: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let markup = pieces[0]!
  for (const [i, value] of values.entries()) markup += render(value) + pieces[i + 1]!
  return new Html(markup)
}

function render(value: HtmlValue): string {
  if (value instanceof Html) return value.markup
  if (typeof value === 'string' || typeof value === 'number') {
    return String(value).replace(/[&<>"']/g, (character) => escapes[character]!)
  }
  return value.map((piece) => piece.markup).join('\n')
}
