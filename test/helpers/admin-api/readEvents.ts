/** One server-sent event. */
export interface Event<Data> {
  readonly event: string
  readonly data: Data
}

/** Reads a stream of server-sent events to its end; comments are left out. */
export async function* readEvents<Data>(response: Response): AsyncGenerator<Event<Data>> {
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    const blocks = text.split('\n\n')
    text = blocks.pop()!
    for (const block of blocks) {
      const event = /^event: (.*)$/m.exec(block)?.[1]
      if (event !== undefined) yield { event, data: JSON.parse(/^data: (.*)$/m.exec(block)![1]!) }
    }
  }
}
