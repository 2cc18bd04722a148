import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect } from 'chai';
import { assertChunk, rehearseHead } from '../../../lib/http/response-checks';

function response(): ServerResponse {
  return new ServerResponse(new IncomingMessage(new Socket()));
}

describe('what Node would refuse', () => {
  it('a good head passes, and leaves no trace on the response', () => {
    const res = response();
    res.setHeader('X-One', ['1', '2']);
    expect(rehearseHead(res, [201, { 'X-Two': '2' }])).to.deep.equal({
      statusCode: 201,
      statusMessage: 'Created',
    });
    expect(rehearseHead(res, ['202', 'Fine'])).to.deep.equal({ statusCode: 202, statusMessage: 'Fine' });
    expect(res.headersSent).to.equal(false);
    expect(res.statusCode).to.equal(200);
    expect(res.getHeaders()).to.deep.equal({ 'x-one': ['1', '2'] });
  });

  it('a status message that was set counts', () => {
    const res = response();
    res.statusMessage = 'Made It';
    expect(rehearseHead(res, [201]).statusMessage).to.equal('Made It');
    res.statusMessage = 'a\nb';
    expect(() => rehearseHead(res, [201]))
      .to.throw(TypeError)
      .with.property('code', 'ERR_INVALID_CHAR');
  });

  it('trailers that the headers of the response forbid', () => {
    const res = response();
    res.setHeader('Content-Length', 1);
    expect(() => rehearseHead(res, [200, { Trailer: 'X-Sum' }]))
      .to.throw(Error)
      .with.property('code', 'ERR_HTTP_TRAILER_INVALID');
  });

  it('a second head', () => {
    const res = response();
    res.writeHead(200);
    expect(() => rehearseHead(res, [200]))
      .to.throw(Error)
      .with.property('code', 'ERR_HTTP_HEADERS_SENT');
  });

  for (const [chunk, encoding] of [
    ['text'],
    ['ff', 'hex'],
    [Buffer.from('a')],
    [new Uint8Array(1), 'buffer'],
    [''],
  ]) {
    it(`the body ${typeof chunk} in ${String(encoding)} passes`, () => {
      assertChunk(response(), [chunk, encoding]);
    });
  }

  for (const [chunk, encoding, code] of [
    [null, undefined, 'ERR_STREAM_NULL_VALUES'],
    [undefined, undefined, 'ERR_INVALID_ARG_TYPE'],
    [42, undefined, 'ERR_INVALID_ARG_TYPE'],
    ['text', 'klingon', 'ERR_UNKNOWN_ENCODING'],
  ] as const) {
    it(`the body ${String(chunk)} in ${String(encoding)} is ${code}`, () => {
      expect(() => {
        assertChunk(response(), [chunk, encoding]);
      })
        .to.throw(TypeError)
        .with.property('code', code);
    });
  }
});
