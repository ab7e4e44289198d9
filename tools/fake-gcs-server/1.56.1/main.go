// Google's object storage for tests: fake-gcs-server, and in front of it the half of the XML API that it lacks.
//
// The client speaks the XML API. Of that the emulator knows reading, listing and deleting; writing is passed on here to its
// JSON API, the condition of a write included, and it is the emulator that decides whether the condition holds. Parts of an
// upload are kept here until it is complete. With -forget-conditions every write overwrites, as some stores do.
package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:4443", "address to listen on")
	forget := flag.Bool("forget-conditions", false, "every write overwrites")
	flag.Parse()
	// Without a port it is the public host on any: a proxy in front has another.
	emulator, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, PublicHost: "127.0.0.1"})
	if err != nil {
		log.Fatal(err)
	}
	front := &front{emulator: emulator.HTTPHandler(), forget: *forget, uploads: map[string]map[int][]byte{}}
	log.Fatal(http.ListenAndServe(*listen, front))
}

type front struct {
	emulator http.Handler
	forget   bool

	mutex   sync.Mutex
	count   int
	uploads map[string]map[int][]byte
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, object, whole := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	query := r.URL.Query()
	if !whole || bucket == "storage" || bucket == "upload" || object == "" {
		f.emulator.ServeHTTP(w, r)
		return
	}
	switch id := query.Get("uploadId"); {
	case r.Method == http.MethodPut && id != "":
		f.part(w, r, id)
	case r.Method == http.MethodPut:
		f.write(w, bucket, object, r.Header.Get("x-goog-if-generation-match"), r.Body)
	case r.Method == http.MethodPost && query.Has("uploads"):
		f.begin(w)
	case r.Method == http.MethodPost && id != "":
		f.complete(w, r, bucket, object, id)
	case r.Method == http.MethodDelete && id != "":
		f.take(id)
		w.WriteHeader(http.StatusNoContent)
	default:
		f.emulator.ServeHTTP(w, r)
	}
}

// write passes an object on. The tag of what was written, or "" if it was refused.
func (f *front) write(w http.ResponseWriter, bucket, object, condition string, content io.Reader) string {
	name, err := url.PathUnescape(object)
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidURI")
		return ""
	}
	query := url.Values{"uploadType": {"media"}, "name": {name}}
	if condition != "" && !f.forget {
		query.Set("ifGenerationMatch", condition)
	}
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, "/upload/storage/v1/b/"+bucket+"/o?"+query.Encode(), content)
	f.emulator.ServeHTTP(answer, request)
	switch answer.Code {
	case http.StatusOK:
	case http.StatusPreconditionFailed:
		refuse(w, answer.Code, "PreconditionFailed")
		return ""
	case http.StatusNotFound:
		refuse(w, answer.Code, "NoSuchBucket")
		return ""
	default:
		refuse(w, answer.Code, answer.Body.String())
		return ""
	}
	var made struct{ Etag, Generation string }
	if err := json.Unmarshal(answer.Body.Bytes(), &made); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return ""
	}
	w.Header().Set("ETag", strconv.Quote(made.Etag))
	w.Header().Set("x-goog-generation", made.Generation)
	return made.Etag
}

func (f *front) begin(w http.ResponseWriter) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.count++
	id := fmt.Sprint("upload-", f.count)
	f.uploads[id] = map[int][]byte{}
	fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
}

func (f *front) part(w http.ResponseWriter, r *http.Request, id string) {
	number, err := strconv.Atoi(r.URL.Query().Get("partNumber"))
	content, failed := io.ReadAll(r.Body)
	if err != nil || failed != nil {
		refuse(w, http.StatusBadRequest, "InvalidArgument")
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	parts, ok := f.uploads[id]
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	parts[number] = content
	w.Header().Set("ETag", fmt.Sprintf("\"%s-%d\"", id, number))
}

func (f *front) complete(w http.ResponseWriter, r *http.Request, bucket, object, id string) {
	var named struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.NewDecoder(r.Body).Decode(&named); err != nil {
		refuse(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	parts, ok := f.take(id)
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	var content bytes.Buffer
	for _, part := range named.Part {
		piece, ok := parts[part.PartNumber]
		if !ok || strings.Trim(part.ETag, "\"") != fmt.Sprintf("%s-%d", id, part.PartNumber) {
			refuse(w, http.StatusBadRequest, "InvalidPart")
			return
		}
		content.Write(piece)
	}
	if tag := f.write(w, bucket, object, "", &content); tag != "" {
		fmt.Fprintf(w, "<CompleteMultipartUploadResult><ETag>%s</ETag></CompleteMultipartUploadResult>", tag)
	}
}

// take removes an upload.
func (f *front) take(id string) (map[int][]byte, bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	parts, ok := f.uploads[id]
	delete(f.uploads, id)
	return parts, ok
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprint(w, "<Error><Code>")
	xml.EscapeText(w, []byte(code))
	fmt.Fprint(w, "</Code></Error>")
}
